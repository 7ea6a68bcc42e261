"""What the papers print: figures of their machines and their data. Nothing here was measured by us.

All numbers of papers are in this file, those of GTS in ``printed_gts.py``, and nowhere else; a result holds measured
ones only. They were read from the papers' text, which has no page marks: a place is the table or figure, its section,
and the pages of the whole paper.
"-" stands where a paper has no figure (not supported, or out of memory), "?" behind one that cannot be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "ALL_UPDATES",
    "ANALYTICS",
    "BESIDE",
    "BULK",
    "CLAIMS",
    "COPIES",
    "CUT",
    "EXPANSIONS",
    "FROM_DEVICE",
    "FROM_HOST",
    "IN_TURN",
    "MEAN",
    "PAPERS",
    "PRINTED",
    "TOGETHER",
    "Claim",
    "Paper",
    "Printed",
    "Value",
]

BULK = 0  # the batch of all edges in one
MEAN = "mean of its sets"
# Rows of our tables that claims are about.
ALL_UPDATES, EXPANSIONS, ANALYTICS = "all batches", "batches that expand", "analytics"
FROM_DEVICE, FROM_HOST = "batches from the device", "batches from the host"
COPIES, IN_TURN, BESIDE = "copies", "one after the other", "copies beside the work"
CUT, TOGETHER = "cut at each query", "updates and queries together"


@dataclass(frozen=True)
class Paper:
    """A paper and the machine of its figures."""

    cite: str
    machine: str


@dataclass(frozen=True)
class Value:
    """One printed figure; None where the paper has none."""

    value: float | None
    doubtful: bool = False


@dataclass(frozen=True)
class Printed:
    """A printed table.

    Attributes
    ----------
    place : str
        Table, section, pages of the paper.
    unit : str
    columns : tuple of str
        Whose figures they are; "ours" of a paper is its structure's name.
    values : mapping
        (data set or MEAN, row, batch) -> one value a column; the row is "" where a table has one kind.
    remark : str
    """

    place: str
    unit: str
    columns: tuple[str, ...]
    values: Mapping[tuple[str, str, int], tuple[Value, ...]]
    remark: str = ""


@dataclass(frozen=True)
class Claim:
    """A ratio that a paper states in its text; its figure is a plot.

    Attributes
    ----------
    experiment : str
        Ours that measures it.
    place, text : str
    kind : {"faster", "saved", "left", "transfer", "hidden", "mixed", "growth", "spike"}
        faster: ``over``'s time / ``of``'s; saved: the share of ``over``'s re-balances that ``of`` does not make; left:
        the share that ``of`` leaves out when it grows; transfer: the share of time that a batch saves by lying in the
        device's memory; hidden: the share of the copies' time that is gone when they run beside the work; mixed: time
        of batches that are cut at each query / of batches answered together; growth: throughput of ``of`` from one
        batch size to the tenfold; spike: largest time of ``of`` / its median.
    of, over : str
        Contestants.
    low, high : float or None
        None for no such end.
    batch : int or None
        The paper's batch; None for all.
    data : tuple of str
        Empty for all.
    row : str
        Of the measured table; None for any.
    """

    experiment: str
    place: str
    text: str
    kind: str
    of: str
    over: str = ""
    low: float | None = None
    high: float | None = None
    batch: int | None = None
    data: tuple[str, ...] = field(default=())
    row: str | None = None


PAPERS = {
    "gpma": Paper(
        "Sha, Li, He, Tan: Accelerating Dynamic Graph Analytics on GPUs, PVLDB 11(1), 2017, pages 107-120",
        "TITAN X 12 GB, i7-5820K, CUDA 7.5",
    ),
    "lpma": Paper(
        "Zou, Zhang, Lin, Yu: An Efficient Data Structure for Dynamic Graph on GPUs, IEEE TKDE 35(11), 2023, "
        "pages 11051-11066",
        "Tesla P100 16 GB, E5-2640, CUDA 7.5",
    ),
    "slab-hash": Paper(
        "Awad, Ashkiani, Porumbescu, Owens: Dynamic Graphs on the GPU, IPDPS 2020, pages 739-748",
        "TITAN V 12 GB, Xeon E5-2637",
    ),
    "gts": Paper(
        "Kim, An, Park, Seo, Kim: GTS, SIGMOD 2016, 15 pages, not numbered", "2 TITAN X 12 GB, 2 E5-2687W, CUDA 7.5"
    ),
    "graphvine": Paper(
        "Krishnan S, Tavva, Nasre: GraphVine, preprint, 2023, no page numbers", "RTX 2060 12 GB, i3-12100F"
    ),
}

_UNITS = {"K": 1_000, "M": 1_000_000}


def _batch(text: str) -> int:
    if text == "bulk":
        return BULK
    if text.startswith("2^"):
        return 1 << int(text[2:])
    return int(text[:-1]) * _UNITS[text[-1]] if text[-1] in _UNITS else int(text)


def _value(text: str) -> Value:
    return Value(None if text == "-" else float(text.rstrip("?")), text.endswith("?"))


def _rates(block: str) -> dict[tuple[str, str, int], tuple[Value, ...]]:
    """Read lines of BATCH VALUE ...: means over data sets."""
    lines = [line.split() for line in block.strip().splitlines()]
    return {(MEAN, "", _batch(batch)): tuple(map(_value, values)) for batch, *values in lines}


def _by_set(block: str) -> dict[tuple[str, str, int], tuple[Value, ...]]:
    """Read lines of DATA VALUE ...: all edges in one batch."""
    lines = [line.split() for line in block.strip().splitlines()]
    return {(data, "", BULK): tuple(map(_value, values)) for data, *values in lines}


def _by_batch(block: str) -> dict[tuple[str, str, int], tuple[Value, ...]]:
    """Read lines of DATA and, for 100K, 1M, 10M and all edges, VALUE/VALUE/VALUE."""
    values = {}
    for line in block.strip().splitlines():
        data, *cells = line.split()
        for batch, cell in zip(("100K", "1M", "10M", "bulk"), cells, strict=True):
            values[data, "", _batch(batch)] = tuple(map(_value, cell.split("/")))
    return values


def _rounds(block: str) -> dict[tuple[str, str, int], tuple[Value, ...]]:
    """Read lines of DATA ROUND INSERT/TRIANGLES/TOTAL INSERT/TRIANGLES/TOTAL: ours, then Hornet's."""
    values: dict[tuple[str, str, int], tuple[Value, ...]] = {}
    for line in block.strip().splitlines():
        data, number, ours, hornet = line.split()
        for row, one, other in zip(("insert", "triangles", "total"), ours.split("/"), hornet.split("/"), strict=True):
            values[data, f"round {number}, {row}", 1 << 22] = (_value(other), _value(one))
    return values


_SLAB = "section VI, pages 739-748"
_VINE = "section 5, no page numbers"
_VINE_COLUMNS = ("Hornet", "faimGraph", "GraphVine")

PRINTED = {
    "slab-hash/table2": Printed(
        f"Table II, {_SLAB}", "MEdge/s", ("Hornet", "faimGraph", "slab hash"),
        _rates("""
            2^16 33.67 92.47 501.33
            2^17 44.71 133.97 513.56
            2^18 51.43 157.15 591.06
            2^19 70.81 188.98 641.25
            2^20 83.54 - 664.52
            2^21 97.41 - 658.09
            2^22 110.89 - 646.01"""),
    ),
    "slab-hash/table3": Printed(
        f"Table III, {_SLAB}", "MEdge/s", ("Hornet", "faimGraph", "slab hash"),
        _rates("""
            2^16 91.73 111.71 640.63
            2^17 159.69 112.96 886.92
            2^18 259.31 171.75 947.60
            2^19 377.79 257.66 939.98
            2^20 537.73 - 988.85
            2^21 739.82 - 1007.16
            2^22 1024.87 - 1015.47"""),
    ),
    "slab-hash/table4": Printed(
        f"Table IV, {_SLAB}", "MVertex/s", ("faimGraph", "slab hash"),
        _rates("""
            2^16 0.44 5.35
            2^17 0.71 9.23
            2^18 1.12 12.66
            2^19 1.62 19.21
            2^20 2.96 26.49"""),
    ),
    "slab-hash/table5": Printed(
        f"Table V, {_SLAB}", "ms", ("Hornet", "slab hash"),
        _by_set("""
            luxembourg_osm 5.562 0.184
            germany_osm 330.311 12.407
            road_usa 644.308 27.910
            delaunay_n23 273.532 19.590
            delaunay_n20 37.68 2.494
            rgg_n_2_20_s0 37.084 5.053
            rgg_n_2_24_s0 - 0.697?
            coAuthorsDBLP 11.672 0.835
            ldoor 46.486 15.936
            soc-LiveJournal1 179.879 26.176
            soc-orkut - 39.907
            hollywood-2009 90.705 42.387"""),
        "0.697 ms for rgg_n_2_24_s0 would be 380 GEdge/s, the others are at 1.3 to 5.3: a digit may be lost",
    ),
    "slab-hash/table6": Printed(
        f"Table VI, {_SLAB}", "MEdge/s", ("Hornet", "slab hash"),
        _rates("""
            2^20 164.44 841.31
            2^21 176.96 945.64
            2^22 184.75 993.82"""),
    ),
    "slab-hash/table7": Printed(
        f"Table VII, {_SLAB}", "ms", ("Hornet", "faimGraph", "slab hash"),
        _by_set("""
            luxembourg_osm 0.57 1.01 0.31
            germany_osm 26.31 16.61 29.69
            road_usa 51.57 39.19 66.20
            delaunay_n23 25.74 21.14 56.38
            delaunay_n20 3.35 2.92 6.43
            rgg_n_2_20_s0 6.42 7.35 23.24
            rgg_n_2_24_s0 154.75 165.86 493.6
            coAuthorsDBLP 1.20 4.75 6.98
            ldoor 22.09 48.04 222.07
            soc-LiveJournal1 482.98 705.71 1526
            soc-orkut 3832 8986 6758
            hollywood-2009 9784 57311 11060"""),
        "without the sorting that Hornet and faimGraph need, which is in Table VIII",
    ),
    "slab-hash/table8": Printed(
        f"Table VIII, {_SLAB}", "ms", ("CSR by CUB", "faimGraph"),
        _by_set("""
            luxembourg_osm 58.13 0.07
            germany_osm 5260 4.84
            road_usa 10875 12.65
            delaunay_n23 3854 18.98
            delaunay_n20 503.29 2.48
            rgg_n_2_20_s0 496.85 8.62
            rgg_n_2_24_s0 7753 178.37
            coAuthorsDBLP 136.89 7.36
            ldoor 442.15 175.12
            soc-LiveJournal1 2226 20428
            soc-orkut 1404 41833
            hollywood-2009 540.30 8504"""),
        "a sort of each row; ours is the whole conversion into a sorted CSR",
    ),
    "slab-hash/table9": Printed(
        f"Table IX, {_SLAB}", "ms", ("Hornet", "slab hash"),
        _rounds("""
            road_usa 1 -/65.5/64.1? -/51.6/116.0?
            road_usa 2 14.8/135.8/129.5? 214.1/110.2/235.1?
            road_usa 3 29.7/201.7/195.0? 438.4/174.6/356.4?
            road_usa 4 44.5/267.5/260.5? 652.6/243.8/476.2?
            road_usa 5 59.4/333.2/325.8? 855.7/319.7/597.8?
            hollywood-2009 1 -/11151/11151 -/9893/9893
            hollywood-2009 2 12.4/22539/22551 73.4/19982/20056
            hollywood-2009 3 24.9/33921/33946 149.0/30174/30323
            hollywood-2009 4 37.3/45297/45335 229.3/40552/40781
            hollywood-2009 5 49.8/56724/56774 313.0/51090/51403"""),
        "cumulative; the totals of road_usa are not the sums of their parts",
    ),
    "graphvine/table2": Printed(
        f"Table 2, {_VINE}", "ms", _VINE_COLUMNS,
        _by_set("""
            coPapersDBLP 643.973 16.981 0.575
            coPapersCiteseer 538.074 19.915 0.589
            hugetrace-00020 15617 43.831 2.227
            channel-500x100x100-b050 4929 50.772 1.355
            delaunay_n24 16059 62.199 2.386
            europe_osm 51298 119.028 4.042
            rgg_n_2_24_s0 17552 140.11 3.180"""),
    ),
    "graphvine/table3": Printed(
        f"Table 3, {_VINE}", "ms", _VINE_COLUMNS,
        _by_batch("""
            coPapersDBLP 13.083/1.224/0.868 90.699/9.909/2.444 358.091/-/37.11 531.632/-/124.647
            coPapersCiteseer 10.9/1.431/0.821 78.501/10.312/2.253 304.825/-/37.658 432.848/-/129.029
            hugetrace-00020 1.539/1.048/3.197 35.181/7.504/5.762 2129.69/-/29.444 11747.7/-/135.142
            channel-500x100x100-b050 1.013/2.153/1.183 7.179/11.184/4.563 65.983/-/40.887 3967.16/-/339.383
            delaunay_n24 20.245/1.730/3.415 198.051/8.531/5.787 2011.45/-/24.485 15878.7/-/286.08
            europe_osm 94.263/1.512/10.362 827.766/7.572/11.973 8235.38/-/27.317 -/-/190.068
            rgg_n_2_24_s0 13.02/1.945/3.333 115.439/8.058/7.559 1161.95/-/40.779 -/-/992.54"""),
        "GraphVine inserts without looking for duplicates, the others look",
    ),
    "graphvine/table4": Printed(
        f"Table 4, {_VINE}", "ms", _VINE_COLUMNS,
        _by_batch("""
            coPapersDBLP 12.046/1.020/52.207 91.146/8.115/151.679 372.862/-/513.151 563.705/-/629.137
            coPapersCiteseer 10.832/1.125/15.432 79.254/9.108/80.649 315.28/-/550.459 455.584/-/827.061
            hugetrace-00020 1.504/0.888/4.336 35.143/6.801/7.367 2159.95/-/27.670 11706.7/-/84.723
            channel-500x100x100-b050 1.074/2.276/1.342 6.214/15.871/7.559 75.283/-/72.130 4011.89/-/593.154
            delaunay_n24 20.25/1.972/4.077 201.747/7.114/10.359 2039.19/-/43.523 16104.4/-/167.104
            europe_osm 98.674/0.879/10.837 831.202/5.791/12.605 8442.63/-/33.288 -/-/161.929
            rgg_n_2_24_s0 14.144/2.194/3.641 118.606/9.885/6.563 1177.21/-/35.059 -/-/738.115"""),
    ),
    "graphvine/table5": Printed(
        f"Table 5, {_VINE}", "MB", _VINE_COLUMNS,
        _by_batch("""
            coPapersDBLP 497/378/445 583/422/456 1347/-/592 3124/-/890
            coPapersCiteseer 502/379/446 578/420/455 1330/-/588 3197/-/921
            hugetrace-00020 696/1955/2966 766/1985/2797 1590/-/2961 5059/-/3550
            channel-500x100x100-b050 754/1150/1958 832/1184/1921 1590/-/2055 8590/-/3201
            delaunay_n24 976/2065/3315 1013/2072/3302 1882/-/3465 10102/-/4831
            europe_osm 1712/5821/7245 1751/5834/7247 2679/-/7385 -/-/8908
            rgg_n_2_24_s0 1979/3578/5120 2064/3592/5115 2986/-/5297 -/-/9142"""),
        "the paper reserves half of the GPU's memory and seems to count the blocks that are taken",
    ),
}  # fmt: skip

_GPMA = "section 6, pages 107-120"
_LPMA = "section 7, pages 11051-11066"
_FOUR = ("orkut", "graph500-120", "livejournal", "pokec")
_SMALL, _LARGE = 10_000, 100_000


def _lpma_expansions() -> tuple[Claim, ...]:
    stated = {
        _SMALL: ((_FOUR, 61, 69), (("road-tx",), 37, 37), (("stack",), 62, 62), (("wiki",), 40, 40)),
        _LARGE: ((_FOUR, 38, 46), (("road-tx",), 27, 27), (("stack",), 43, 43), (("wiki",), 31, 31)),
    }
    return tuple(
        Claim(
            "lpma/load", f"Fig. 8, {_LPMA}", "LPMA-B over GPMA+, batches that expand", "faster",
            "lpma-b", "gpma+ level", low, high, batch, sets, EXPANSIONS,
        )
        for batch, lines in stated.items()
        for sets, low, high in lines
    )  # fmt: skip


def _lpma_pair(
    place: str, text: str, kind: str, of: str, over: str, small: tuple[float, float], large: tuple[float, float]
) -> tuple[Claim, ...]:
    return tuple(
        Claim("lpma/load", f"{place}, {_LPMA}", text, kind, of, over, low, high, batch, (), ALL_UPDATES)
        for batch, (low, high) in ((_SMALL, small), (_LARGE, large))
    )


CLAIMS = (
    Claim("gpma/fig7", f"Fig. 7, {_GPMA}", "GPMA+ over GPMA, at most", "faster", "gpma+ level", "gpma", None, 18.30),
    Claim("gpma/fig7", f"Fig. 7, {_GPMA}", "GPMA+ over PMA, at most", "faster", "gpma+ level", "pma", None, 20.42),
    Claim(
        "gpma/fig8", f"Fig. 8, {_GPMA}", "BFS on GPMA+ as on a CSR", "faster", "gpma+ level", "rebuild", 1.0, 1.0,
        row=ANALYTICS,
    ),
    Claim("gpma/fig11", f"Fig. 11, {_GPMA}", "GPMA+: transfers hidden", "hidden", "gpma+ level", "", 1.0, 1.0),
    *_lpma_expansions(),
    Claim(
        "lpma/load", f"Fig. 8, {_LPMA}", "LPMA-B: re-balances saved, batches that expand", "left", "lpma-b", "",
        0.8, None, _SMALL, row=EXPANSIONS,
    ),
    *_lpma_pair("Fig. 10", "LPMA-T: re-balances saved", "saved", "lpma-t", "lpma-b", (0.21, 0.27), (0.33, 0.37)),
    *_lpma_pair("Fig. 10", "LPMA-H: re-balances saved", "saved", "lpma-h", "lpma-b", (0.15, 0.20), (0.24, 0.29)),
    *_lpma_pair("Fig. 10", "LPMA-B over LPMA-T", "faster", "lpma-b", "lpma-t", (1.3, 1.3), (1.5, 1.5)),
    *_lpma_pair("Fig. 10", "LPMA-H over LPMA-B", "faster", "lpma-h", "lpma-b", (1.4, 1.4), (2.5, 2.5)),
    Claim(
        "lpma/load", f"Fig. 10, {_LPMA}", "LPMA-H over LPMA-T", "faster", "lpma-h", "lpma-t", 2, 2, _SMALL,
        row=ALL_UPDATES,
    ),
    Claim(
        "lpma/load", f"Fig. 9, {_LPMA}", "LPMA-B: largest over median latency, at most", "spike", "lpma-b", "", None,
        83, data=("pokec",), row=ALL_UPDATES,
    ),
    Claim(
        "lpma/fig11", f"Fig. 11, {_LPMA}", "LPMA-H: edges/s at the tenfold batch", "growth", "lpma-h", "", 5, 9,
        row=ALL_UPDATES,
    ),
    Claim("lpma/fig12", f"Fig. 12, {_LPMA}", "LPMA-H: transfers and waiting", "transfer", "lpma-h", "", 0.22, 0.38),
    *_lpma_pair("Fig. 13", "LPMA-H over GPMA+, all updates", "faster", "lpma-h", "gpma+ level", (6, 9), (10, 20)),
    *(
        Claim("lpma/fig16", f"Fig. 16, {_LPMA}", "mixed batches: Opera over none", "mixed", "lpma-h", "", *ends, batch)
        for batch, ends in ((_SMALL, (2, 6)), (_LARGE, (4, 11)))
    ),
    Claim("lpma/csr", f"Fig. 14, {_LPMA}", "CSR: LPMA as GPMA+", "faster", "lpma-h", "gpma+ level", 1.0, 1.0),
    Claim(
        "lpma/csr", f"Fig. 15, {_LPMA}", "CSR: LPMA over the slab hash, sorted on the GPU", "faster",
        "lpma-h", "slab-hash", 3, 8.5,
    ),
    Claim(
        "lpma/edges", f"Fig. 17, {_LPMA}", "edge queries: the slab hash over LPMA", "faster", "slab-hash", "lpma-h",
        10, 10,
    ),
    Claim(
        "lpma/neighbours", f"Fig. 17, {_LPMA}", "sorted neighbours: LPMA over the slab hash", "faster",
        "lpma-h", "slab-hash", 5, 10,
    ),
    Claim(
        "lpma/fig18", f"Fig. 18, {_LPMA}", "triangles: LPMA over the slab hash", "faster", "lpma-h", "slab-hash", 4, 7
    ),
    Claim(
        "lpma/fig19", f"Fig. 19, {_LPMA}", "PageRank: LPMA over the slab hash", "faster", "lpma-h", "slab-hash",
        0.88, 1.2,
    ),
    Claim(
        "slab-hash/fig2a", f"Fig. 2a, {_SLAB}", "build: load factor 0.7 over chains of 5 slabs", "faster",
        "slab-hash at 0.7", "slab-hash at 5", 2.5, 2.5,
    ),
    Claim("lpma/fig20", f"Fig. 20, {_LPMA}", "BFS: LPMA over the slab hash", "faster", "lpma-h", "slab-hash", 1.1, 1.2),
)  # fmt: skip
