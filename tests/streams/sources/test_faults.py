"""Each fault of each source, some rounds: no row is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import PROFILE
from tests.streams.sources.faults import Fault, list_faults, quick_rounds


@pytest.mark.parametrize(
    ("source", "name", "fault"),
    [pytest.param(*each, id=f"{each[0]}: {each[1]}") for each in list_faults()],
)
def test_no_row_is_lost_or_doubled(
    source: str, name: str, fault: Fault, tmp_path: Path, rng: np.random.Generator
) -> None:
    for number in range(200 if PROFILE == "thorough" else quick_rounds(source, name)):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert fault(rng, folder) == (0, 0), number
