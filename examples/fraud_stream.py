"""Watch a stream of payments: who gathers money, and which accounts hang together, after every batch.

Payments come in batches; the graph holds those of the last hour, in a :class:`dynstore.Window`. After each batch
PageRank and the connected components are asked for. The same is done by building the graphs anew from
all payments of the hour, as a pipeline without a dynamic graph does: the answers must be the same, the time is not.

    python examples/fraud_stream.py --batches 40 --payments 5000

On a GPU the graphs live there, and the frames that come back are cuDF's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import dynstore

WINDOW = 12  # batches in an hour
TOLERANCE = 1e-6
COLUMNS = {"source": "payer", "destination": "payee"}
RING = [f"MULE-{name}" for name in ("ALPHA", "BRAVO", "CHARLIE", "DELTA")]


# ---------------------------------------------------------------------- with dynstore


class Watch:
    """The payments of the last hour: as money that flows, and as accounts that know each other."""

    def __init__(self, device: str = "auto") -> None:
        options: dict[str, Any] = {"weighted": True, "weight_dtype": "float64", "renumber": True, "device": device}
        self.flow = dynstore.DynamicGraph(directed=True, **options)
        self.links = dynstore.DynamicGraph(directed=False, **options)
        # An edge has the sum of its payments, and goes with the last of them.
        self.windows = [dynstore.Window(graph, WINDOW, by="time", keep="sum") for graph in (self.flow, self.links)]

    def slide(self, new: pd.DataFrame, batch: int) -> None:
        """Add a batch of payments; those that are an hour older leave."""
        for window in self.windows:
            window.slide(new, weight="cents", time=np.full(len(new), batch), **COLUMNS)

    def ask(self) -> tuple[pd.Series, pd.Series]:
        """Return every account's rank and component; the ranks start from those of the batch before."""
        ranks = dynstore.pagerank(self.flow, tol=TOLERANCE, warm_start=True)
        return by_account(ranks, "pagerank"), by_account(dynstore.weakly_connected_components(self.links), "labels")


# ---------------------------------------------------------------------- the same by building anew


def rebuild(payments: pd.DataFrame, accounts: list[str], device: str) -> tuple[pd.Series, pd.Series]:
    """Return the same for the payments of an hour: with cuGraph, two ``from_cudf_edgelist`` would stand here."""
    options: dict[str, Any] = {"weight_dtype": "float64", "renumber": True, "device": device}
    paid = {"weight": "cents", "on_duplicate": "add", **COLUMNS}
    flow = dynstore.DynamicGraph.from_edges(payments, **paid, directed=True, **options)
    links = dynstore.DynamicGraph.from_edges(payments, **paid, directed=False, **options)
    for graph in (flow, links):
        graph.insert_vertices(accounts)  # those that were there before the hour began, too
    ranks = dynstore.pagerank(flow, tol=TOLERANCE)
    return by_account(ranks, "pagerank"), by_account(dynstore.weakly_connected_components(links), "labels")


# ---------------------------------------------------------------------- the stream, and what is printed


def by_account(frame: Any, column: str) -> pd.Series:
    """Return a column of a result by account, on the host."""
    if hasattr(frame, "to_pandas"):  # cuDF
        frame = frame.to_pandas()
    return frame.set_index("vertex")[column].sort_index()


def stream(batches: int, payments: int, seed: int) -> Iterator[pd.DataFrame]:
    """Yield batches of payments between accounts; from the middle on, four of them send money in a circle.

    Few accounts are paid by many, most by few. The circle collects from others and never pays anyone else.
    """
    rng = np.random.default_rng(seed)
    names = np.array([f"DE{number:010d}" for number in rng.choice(10**10, 12 * payments, replace=False)])
    for batch in range(batches):
        payer = names[rng.integers(0, names.size, payments)]
        payee = names[(names.size * rng.random(payments) ** 3).astype(np.int64)]
        cents = rng.lognormal(9, 1, payments).astype(np.int64) + 1
        frame = pd.DataFrame({"payer": payer, "payee": payee, "cents": cents})
        if batch >= batches // 2:
            circle = pd.DataFrame({"payer": RING, "payee": RING[1:] + RING[:1], "cents": 900_000})
            victims = pd.DataFrame({"payer": rng.choice(names, 40), "payee": rng.choice(RING, 40), "cents": 25_000})
            frame = pd.concat([frame, circle, victims], ignore_index=True)
        yield frame[frame["payer"] != frame["payee"]]


@dataclass
class Findings:
    """What the last batch showed, and how long the batches took that slid a full hour on."""

    top: list[str]
    largest: int
    components: int
    update_seconds: float = 0.0
    rebuild_seconds: float = 0.0


def check_same(ranks: pd.Series, labels: pd.Series, other_ranks: pd.Series, other_labels: pd.Series) -> None:
    """Raise where the two ways disagree: ranks by more than the tolerance allows, or accounts that hang together."""
    if not ranks.index.equals(other_ranks.index) or float((ranks - other_ranks).abs().sum()) > 20 * TOLERANCE:
        raise AssertionError("the ranks differ")
    pairs = pd.DataFrame({"one": labels, "other": other_labels}).drop_duplicates()
    if not (pairs["one"].is_unique and pairs["other"].is_unique):
        raise AssertionError("the components differ")


def main(batches: int = 24, payments: int = 1000, seed: int = 7, device: str = "auto") -> Findings:
    """Run the stream and print a line a batch."""
    watch, window, seen = Watch(device), [], set()
    findings = Findings([], 0, 0)
    print(" batch  payments  accounts  components  largest  top of PageRank            dynstore   rebuild")
    for number, new in enumerate(stream(batches, payments, seed)):
        window = [*window, new][-WINDOW:]
        seen.update(new["payer"], new["payee"])

        start = time.perf_counter()
        watch.slide(new, number)
        ranks, labels = watch.ask()
        middle = time.perf_counter()
        hour = pd.concat(window, ignore_index=True)
        again = rebuild(hour, sorted(seen), device)
        end = time.perf_counter()

        check_same(ranks, labels, *again)
        sizes = labels.value_counts()  # an account without payments in this hour is a component of its own
        findings.top = list(ranks.nlargest(len(RING)).index)
        findings.components, findings.largest = len(sizes), int(sizes.iloc[0])
        if number > WINDOW:  # those before compile, and fill the hour
            findings.update_seconds += middle - start
            findings.rebuild_seconds += end - middle
        print(
            f"{number:6d}  {len(hour):8d}  {len(ranks):8d}  {findings.components:10d}  {findings.largest:7d}  "
            f"{findings.top[0]:24s}  {1e3 * (middle - start):6.1f} ms {1e3 * (end - middle):6.1f} ms"
        )
    took = f"dynstore {findings.update_seconds:.2f} s, rebuilt {findings.rebuild_seconds:.2f} s"
    print(f"the same answers; {took}, from batch {WINDOW + 1} on")
    return findings


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Payments in a sliding window: PageRank and components.")
    parser.add_argument("--batches", type=int, default=24)
    parser.add_argument("--payments", type=int, default=1000, help="payments in a batch")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    main(**vars(parser.parse_args()))
