"""The papers' data sets: read where the user has the file, stood in for where not, and arranged as a stream."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.papers.stand_ins import SHAPES, make_edges
from dynstore.errors import InputError, unknown_name
from dynstore.io import read_events

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["DATA_SETS", "DataSet", "Ring", "arrange", "check_data_dir", "find_file", "fingerprint", "load_ring"]

# What SNAP, SuiteSparse, the DIMACS challenges and others pack their files as.
ENDINGS = (
    *(".txt", ".txt.gz", ".mtx", ".mtx.gz", ".tar.gz", ".graph", ".graph.gz", ".graph.bz2"),
    *(".csv", ".csv.gz", ".tsv", ".parquet"),
)


@dataclass(frozen=True)
class DataSet:
    """One data set as its paper has it.

    Attributes
    ----------
    num_vertices, num_edges : int
        Printed by the paper; of the stand-in.
    shape : str
        Of the stand-in, see :func:`~benchmarks.papers.stand_ins.make_edges`.
    source : str
        Who publishes it.
    stems : tuple of str
        Names of the file, without its ending.
    mirrored : bool
        The paper counts both directions of each edge.
    timed : bool
        The file's third column is the time; else the order is random, as in the papers.
    """

    num_vertices: int
    num_edges: int
    shape: str
    source: str
    stems: tuple[str, ...]
    mirrored: bool = False
    timed: bool = False


def _mesh(num_vertices: int, num_edges: int, *stems: str, shape: str = "mesh") -> DataSet:
    return DataSet(num_vertices, num_edges, shape, "SuiteSparse, DIMACS", stems, mirrored=True)


def _social(num_vertices: int, num_edges: int, *stems: str, source: str = "SuiteSparse, SNAP") -> DataSet:
    return DataSet(num_vertices, num_edges, "rmat", source, stems, mirrored=True)


def _snap(num_vertices: int, num_edges: int, stem: str, timed: bool = False) -> DataSet:
    return DataSet(num_vertices, num_edges, "rmat", "SNAP", (stem,), timed=timed)


DATA_SETS = {
    # GPMA, Table 2
    "reddit": DataSet(2_610_000, 34_400_000, "rmat", "Kaggle, May 2015", ("reddit",), timed=True),
    "pokec": _snap(1_632_803, 30_622_564, "soc-pokec-relationships"),
    "graph500-200": DataSet(1_000_000, 200_000_000, "rmat", "generated", ()),
    "random": DataSet(1_000_000, 200_000_000, "uniform", "generated", ()),
    # LPMA, Table 2
    "orkut": _snap(3_072_441, 117_185_083, "com-orkut.ungraph"),
    "graph500-120": DataSet(1_048_576, 125_829_120, "rmat", "generated", ()),
    "livejournal": _snap(4_847_571, 68_993_773, "soc-LiveJournal1"),
    "cit-patents": _snap(3_774_768, 16_518_948, "cit-Patents"),
    "road-tx": DataSet(1_379_917, 2 * 1_921_660, "mesh", "SNAP", ("roadNet-TX",), mirrored=True),  # printed once
    "stack": _snap(2_601_977, 36_233_450, "sx-stackoverflow", timed=True),
    "wiki": _snap(1_140_149, 3_309_592, "wiki-talk-temporal", timed=True),
    # Slab hash, Table I
    "luxembourg_osm": _mesh(114_000, 239_000, "luxembourg_osm", "luxembourg.osm"),
    "germany_osm": _mesh(11_500_000, 24_700_000, "germany_osm", "germany.osm"),
    "road_usa": _mesh(23_900_000, 57_710_000, "road_usa"),
    "delaunay_n23": _mesh(8_400_000, 50_300_000, "delaunay_n23"),
    "delaunay_n20": _mesh(1_000_000, 6_300_000, "delaunay_n20"),
    "rgg_n_2_20_s0": _mesh(1_000_000, 13_800_000, "rgg_n_2_20_s0", shape="scattered"),
    "rgg_n_2_24_s0": _mesh(16_800_000, 265_100_000, "rgg_n_2_24_s0", shape="scattered"),
    "coAuthorsDBLP": _social(299_000, 1_900_000, "coAuthorsDBLP", source="SuiteSparse, DIMACS"),
    "ldoor": _mesh(952_000, 45_500_000, "ldoor"),
    "soc-LiveJournal1": _social(4_800_000, 85_700_000, "soc-LiveJournal1"),
    "soc-orkut": _social(3_000_000, 212_700_000, "soc-orkut", "com-Orkut", "com-orkut.ungraph"),
    "hollywood-2009": _social(1_100_000, 112_800_000, "hollywood-2009", source="SuiteSparse"),
    # Slab hash, Figs. 2 and 3: 2^20 vertices of several average degrees
    "rmat-15": DataSet(1 << 20, 15 << 20, "rmat", "generated", ()),
    "rmat-60": DataSet(1 << 20, 60 << 20, "rmat", "generated", ()),
    # GraphVine, Table 1
    "coPapersDBLP": _social(540_000, 30_000_000, "coPapersDBLP", source="SuiteSparse, DIMACS"),
    "coPapersCiteseer": _social(434_000, 32_000_000, "coPapersCiteseer", source="SuiteSparse, DIMACS"),
    "hugetrace-00020": _mesh(16_000_000, 48_000_000, "hugetrace-00020"),
    "channel-500x100x100-b050": _mesh(5_000_000, 86_000_000, "channel-500x100x100-b050"),
    "delaunay_n24": _mesh(17_000_000, 100_000_000, "delaunay_n24"),
    "europe_osm": _mesh(51_000_000, 108_000_000, "europe_osm", "europe.osm", "inf-europe_osm"),
    # GTS, Table 3, and Fig. 14: RMAT28 of other densities
    **{f"rmat{scale}": DataSet(1 << scale, 16 << scale, "rmat", "generated", ()) for scale in range(26, 33)},
    **{f"rmat28-{density}": DataSet(1 << 28, density << 28, "rmat", "generated", ()) for density in (4, 8, 32)},
    "twitter": DataSet(42_000_000, 1_468_000_000, "rmat", "Kwak et al.", ("twitter_rv", "twitter-2010")),
    "uk2007": DataSet(106_000_000, 3_739_000_000, "rmat", "LAW", ("uk-2007-05",)),
    "yahooweb": DataSet(1_414_000_000, 6_636_000_000, "rmat", "Yahoo Webscope", ()),
}
MIN_VERTICES = 64


@dataclass(frozen=True, eq=False)
class Ring:
    """Different pairs without loops in the order in which they come; after the last comes the first again.

    Attributes
    ----------
    name, label : str
        The label says whether it is the data set or what stands in for it.
    num_vertices : int
        One more than the highest id.
    src, dst : arrays, shape (E,), int32
    """

    name: str
    label: str
    num_vertices: int
    src: Array
    dst: Array

    def __len__(self) -> int:
        return int(self.src.shape[0])

    def on(self, backend: Backend, home: Backend) -> Ring:
        """Return it in a device's memory; ``home`` is where it is."""
        if backend is home:
            return self
        columns = (backend.asarray(home.to_host(column)) for column in (self.src, self.dst))
        return Ring(self.name, self.label, self.num_vertices, *columns)

    def rows(self, xp: Any, low: int, high: int) -> tuple[Array, Array]:
        """Return the edges ``low`` to ``high`` (exclusive), at most once round."""
        low, high = low % len(self), low % len(self) + high - low
        if high <= len(self):
            return self.src[low:high], self.dst[low:high]
        over = high - len(self)
        src, dst = (xp.concatenate((column[low:], column[:over])) for column in (self.src, self.dst))
        return src, dst


def check_data_dir(folder: Path | None) -> None:
    """Refuse what is no folder.

    Raises
    ------
    InputError
    """
    if folder is not None and not folder.is_dir():
        raise InputError(f"papers: --data-dir is {str(folder)!r}, which is no folder")


def find_file(data: DataSet, folder: Path | None) -> Path | None:
    """Return the data set's file in a folder or, as archives unpack, in a folder there of its name."""
    if folder is None:
        return None
    for stem in data.stems:
        for place in (folder, folder / stem):
            for ending in ENDINGS:
                if (place / f"{stem}{ending}").is_file():
                    return place / f"{stem}{ending}"
    return None


@lru_cache(maxsize=1)  # the directed and the undirected form are made from one reading
def _columns(name: str, folder: Path | None, shrink: int, seed: int) -> tuple[str, bool, np.ndarray, np.ndarray]:
    """Return label, whether the order is that of time, and the raw rows."""
    data = DATA_SETS[name]
    path = find_file(data, folder)
    if path is not None:
        events = read_events(path, source=0, destination=1, time=2) if data.timed else read_events(path)
        src, dst = events.src, events.dst
        if data.mirrored:
            src, dst = np.concatenate((src, dst)), np.concatenate((dst, src))
        return f"{name} ({path.name})", data.timed, src, dst
    vertices, edges = max(MIN_VERTICES, data.num_vertices // shrink), max(MIN_VERTICES, data.num_edges // shrink)
    src, dst = make_edges(data.shape, vertices, edges, data.mirrored, seed)
    size = "" if shrink == 1 else f", 1/{shrink}"
    return f"{SHAPES[data.shape]} for {name}{size}", False, src, dst


def load_ring(backend: Backend, name: str, directed: bool, folder: Path | None, shrink: int, seed: int) -> Ring:
    """Read a data set, or make its stand-in of a ``shrink``-th of the size.

    Parameters
    ----------
    backend : Backend
        Where the edges are to lie.
    name : str
    directed : bool
        If not, (u, v) and (v, u) are one pair.
    folder : Path or None
        Where files are.
    shrink, seed : int
        Of stand-ins; a file is read as it is.

    Raises
    ------
    InputError
        For an unknown name, and for a file that cannot be read.
    """
    if name not in DATA_SETS:
        raise unknown_name("papers", "data set", name, DATA_SETS)
    label, timed, src, dst = _columns(name, folder, shrink, seed)
    most = None if timed or find_file(DATA_SETS[name], folder) else DATA_SETS[name].num_edges // shrink
    columns = arrange(backend, src, dst, directed, timed, seed)
    if most is not None:
        columns = columns[0][: max(MIN_VERTICES, most)], columns[1][: max(MIN_VERTICES, most)]
    num_vertices = int(max(src.max(), dst.max())) + 1 if src.shape[0] else 0
    return Ring(name, label, num_vertices, *columns)


def arrange(
    backend: Backend, src: np.ndarray, dst: np.ndarray, directed: bool, timed: bool, seed: int
) -> tuple[Array, Array]:
    """Keep each pair once, drop loops, and order: by first occurrence, or at random, the same on every device.

    Returns
    -------
    src, dst : arrays, shape (E,), int32
    """
    xp = backend.xp
    src, dst = backend.asarray(src, np.int64), backend.asarray(dst, np.int64)
    if not directed:
        src, dst = xp.minimum(src, dst), xp.maximum(src, dst)
    keys = (src << 32 | dst)[src != dst]
    places = xp.argsort(keys, kind="stable") if timed else None
    keys = xp.sort(keys) if places is None else keys[places]
    fresh = xp.ones(keys.shape[0], np.bool_)
    xp.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    keys = keys[fresh]
    order = xp.argsort(_mix(xp, keys, seed) if places is None else places[fresh])
    keys = keys[order]
    return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


def fingerprint(xp: Any, src: Array, dst: Array) -> tuple[int, int]:
    """Return how many pairs there are, and a sum that does not depend on their order but on each of them."""
    keys = src.astype(np.int64) << 32 | dst.astype(np.int64)
    return int(keys.shape[0]), int(_mix(xp, keys, 0).sum()) if keys.shape[0] else 0


def _mix(xp: Any, keys: Array, seed: int) -> Array:
    """Return splitmix64's finaliser of each key: different keys, different numbers; uint64."""
    mixed = keys.view(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))
