"""Which format a file has: known by its first bytes, and only where these are not enough by its name."""

from __future__ import annotations

import json
import re
from typing import Literal, TypeAlias

from dynstore.errors import FileFormatError
from dynstore.io.packing import plain_suffix

__all__ = ["Format", "find_format"]

Format: TypeAlias = Literal["text", "matrix market", "metis", "dimacs", "json lines", "graphml", "gml", "pajek"]

# What a file of another format begins with, its name, and what reads it.
FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"\xff\xff\xff\xff", "a stream of Arrow", "pyarrow.ipc.open_stream"),
    (b"SQLite format 3\0", "a database of SQLite", "pandas.read_sql"),
    (b"\x89HDF\r\n", "a file of HDF5", "pandas.read_hdf, or h5py"),
    (b"\x93NUMPY", "an array of NumPy", "numpy.load"),
    (b"ORC", "a file of ORC", "pandas.read_orc"),
    (b"Obj\x01", "a file of Avro", "polars.read_avro"),
    (b"%PDF", "a document (PDF)", "no reader of tables"),
    (b"\x7fELF", "a program", "no reader of tables"),
    (b"\x80\x04", "a pickle", "pickle.load, if you trust it"),
    (b"\x80\x05", "a pickle", "pickle.load, if you trust it"),
)
# Of texts, in lower case.
MARKUP = (
    (b"<gexf", "GEXF", "networkx.read_gexf"),
    (b"<!doctype", "a web page", "pandas.read_html"),
    (b"<html", "a web page", "pandas.read_html"),
)
DIMACS = re.compile(rb"(?:c[ \t\n][^\n]*\n?|c\n)*p[ \t]+(?:sp|edge|col|max)[ \t]+[0-9]")
GML = re.compile(rb"(?:#[^\n]*\n|\s)*(?:[A-Za-z]+\s+\"[^\"]*\"\s+|[A-Za-z]+\s+[0-9]+\s+)*graph\s*\[", re.IGNORECASE)
PAJEK = re.compile(rb"(?:%[^\n]*\n|\s)*\*(?:vertices|network)\b", re.IGNORECASE)
BANNER = b"%%matrixmarket"
OBJECT = re.compile(rb"\s*[\[{]")


def find_format(where: str, head: bytes) -> Format:
    """Return the format of a file that is neither Parquet nor packed.

    Parameters
    ----------
    where : str
        The file, for messages and its suffix.
    head : bytes
        Its first bytes, unpacked.

    Raises
    ------
    FileFormatError
        For a format that is not read, with its name and with what reads it.
    """
    for magic, name, reader in FOREIGN:
        if head.startswith(magic):
            raise FileFormatError(f"{where}: {name}, which is not read; {reader} reads it")
    suffix, lowered = plain_suffix(where), head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if lowered.startswith(BANNER) or suffix == ".mtx":
        return "matrix market"
    if suffix in (".graph", ".metis"):
        return "metis"
    if suffix == ".parquet":
        raise FileFormatError(f"{where}: not a Parquet file: it does not start with 'PAR1'")
    if DIMACS.match(head):
        return "dimacs"
    if OBJECT.match(head):
        _refuse_other_json(where, head)
        return "json lines"
    for start, name, reader in MARKUP:
        if start in lowered[:1024] and lowered.startswith(b"<"):
            raise FileFormatError(f"{where}: {name}, which is not read; {reader} reads it")
    if lowered.startswith(b"<"):
        if b"<graphml" in lowered:
            return "graphml"
        raise FileFormatError(f"{where}: XML, which is not read; wanted GraphML, or a table")
    if GML.match(head[:4096]):
        return "gml"
    if PAJEK.match(head[:4096]):
        return "pajek"
    if b"\0" in head[:4096]:
        raise FileFormatError(
            f"{where}: binary data of an unknown format; wanted text, Parquet, or a packed file of text"
        )
    return "text"


def _refuse_other_json(where: str, head: bytes) -> None:
    """Refuse JSON that is not one object a line."""
    first = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if first.startswith(b"["):
        raise FileFormatError(
            f"{where}: a JSON array, which is not read; wanted an object in each line. pandas.read_json reads it"
        )
    if re.search(rb'"nodes"\s*:', head) and re.search(rb'"(?:links|edges|adjacency)"\s*:', head):
        raise FileFormatError(f"{where}: a graph as NetworkX writes it to JSON; networkx.node_link_graph reads it")
    line = first.partition(b"\n")[0]
    if len(line) < len(first) or len(head) < 1024:
        try:
            json.loads(line)
        except ValueError:
            if line.strip() in (b"{", b"["):
                raise FileFormatError(
                    f"{where}: JSON over several lines, which is not read; wanted an object in each line"
                ) from None
