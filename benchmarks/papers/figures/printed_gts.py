"""What the paper of GTS prints; see ``printed.py``. Most of its figures are plots without numbers."""

from __future__ import annotations

from benchmarks.papers.figures.printed import BULK, Claim, Printed, Value

__all__ = ["CLAIMS", "PRINTED"]

_PLACE = "section 7, no page numbers"
_GTS = ("GTS",)


def _values(block: str) -> dict[tuple[str, str, int], tuple[Value, ...]]:
    """Read lines of DATA, ROW; VALUE; "-" where there is none."""
    values: dict[tuple[str, str, int], tuple[Value, ...]] = {}
    for line in block.strip().splitlines():
        data, row, value = (part.strip() for part in line.split(";"))
        values[data, row, BULK] = (Value(None if value == "-" else float(value)),)
    return values


PRINTED = {
    "gts/fig6": Printed(
        f"Figs. 6 to 8, {_PLACE}", "ms", _GTS,
        _values("""
            rmat27; PageRank; -
            rmat28; PageRank; -
            rmat29; PageRank; 59000
            rmat30; PageRank; 153000
            rmat31; PageRank; -
            rmat32; PageRank; -
            twitter; BFS; 979
            uk2007; PageRank; -
            yahooweb; PageRank; -"""),
        "the figures are plots; these follow from the text, with two GPUs: PageRank of RMAT29 and 30, and 1,500 M "
        "edges a second in BFS of Twitter",
    ),
    "gts/fig9": Printed(
        f"Fig. 9, {_PLACE}", "ms", _GTS,
        _values("""
            rmat30; PageRank, Strategy-P, memory; 153000
            rmat30; PageRank, Strategy-P, disk; 196000"""),
        "disk: two SSDs; two hard disks took 2,843 s",
    ),
    "gts/table3": Printed(
        f"Table 3, {_PLACE}", "pages", _GTS,
        _values("""
            rmat27; small pages; 9724
            rmat27; large pages; 58
            rmat28; small pages; 19533
            rmat28; large pages; 62
            rmat29; small pages; 38747
            rmat29; large pages; 937
            rmat30; small pages; 1786
            rmat30; large pages; 0
            rmat31; small pages; 3584
            rmat31; large pages; 0
            rmat32; small pages; 7175
            rmat32; large pages; 0
            twitter; small pages; 5418
            twitter; large pages; 1029
            uk2007; small pages; 15484
            uk2007; large pages; 0
            yahooweb; small pages; 32807
            yahooweb; large pages; 0"""),
        "pages of 1 MiB, of RMAT30 to 32 of 64 MiB",
    ),
    "gts/table4": Printed(
        f"Table 4, {_PLACE}", "MB", _GTS,
        {
            (data, row, BULK): (Value(gigabytes * 1024 * 1.048576),)
            for data, line in {
                "rmat28": (20, 0.5, 1, 1, 2), "rmat29": (40, 1, 2, 2, 4), "rmat30": (114, 2, 4, 4, 8),
                "rmat31": (229, 4, 8, 8, 16), "rmat32": (459, 8, 16, 16, 32),
            }.items()
            for row, gigabytes in zip(("topology", "WA, BFS", "WA, PageRank", "WA, SSSP", "WA, CC"), line, strict=True)
        },
        "the paper has GB of 2^30 bytes",
    ),
}  # fmt: skip


def _ratios(algorithm: str, stated: dict[str, float]) -> tuple[Claim, ...]:
    """Return claims of Table 1, which has transfer : kernels."""
    place, text, kind = "Table 1, section 3.2", f"{algorithm}: kernels over transfer", f"kernels of {algorithm}"
    return tuple(
        Claim("gts/table1", place, text, kind, "gts", "", value, value, data=(data,)) for data, value in stated.items()
    )


def _hybrid(algorithm: str, most: float) -> Claim:
    text = f"{algorithm}: hybrid over edge-centric, at most"
    return Claim("gts/fig14", "Fig. 14, appendix E", text, f"hybrid {algorithm}", "gts", "", None, most)


CLAIMS = (
    *_ratios("BFS", {"twitter": 3, "uk2007": 1, "yahooweb": 0.5}),
    *_ratios("PageRank", {"twitter": 20, "uk2007": 6, "yahooweb": 4}),
    _hybrid("BFS", 1.06),
    _hybrid("PageRank", 1.24),
)
