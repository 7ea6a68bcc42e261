"""The real graphs that are too large to ship: their counts are those of the data's README."""

from __future__ import annotations

import time

import numpy as np
import pytest

from dynstore.datasets import load
from dynstore.io import read_events
from tests.shared_data import shared_data


@pytest.mark.parametrize(
    ("name", "options", "edges", "vertices"),
    [
        ("sx-mathoverflow.txt.gz", {"time": 2}, 506_550, 24_818),
        ("CollegeMsg.txt.gz", {"time": 2}, 59_835, 1_899),
        ("higgs-activity_time.txt.gz", {"time": 2}, 563_069, 304_691),
        ("cit-HepPh-temporal.tsv.gz", {"time": 2}, 421_578, 34_546),
        ("cnr-2000.txt.gz", {}, 3_216_152, 325_557),
        ("email-Enron.tsv.gz", {}, 183_831, 36_692),
        ("wiki-Vote.txt", {}, 103_689, 7_115),
        ("ca-HepPh.txt", {}, 237_010, 12_008),
        ("luxembourg_osm.edges", {}, 119_666, 114_599),
        ("soc-sign-bitcoinotc.csv", {"weight": "feature", "time": "time"}, 35_592, 5_881),
        ("karate.csv", {"weight": 2}, 156, 34),
        ("email-Eu-core.csv", {"weight": 2}, 25_571, 1_005),
    ],
)
def test_counts_of_real_graphs(name: str, options: dict, edges: int, vertices: int) -> None:
    events = read_events(shared_data(name), **options)
    assert len(events) == edges
    assert np.unique(np.concatenate((events.src, events.dst))).shape[0] == vertices
    if events.time is not None:
        assert (events.time[1:] >= events.time[:-1]).all()


def test_half_a_million_lines_are_read_in_bulk() -> None:
    load("mathoverflow")  # imports pandas
    start = time.perf_counter()
    load("mathoverflow")
    taken = time.perf_counter() - start
    assert taken < 2  # a tenth of that on a quiet machine
