"""Rows in random forms: each is read as it is, or refused; none is lost, invented or changed without a word.

``make test-thorough`` reads 50,000 frames, files and messages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import PROFILE
from tests.random_input.files import draw_file
from tests.random_input.frames import draw_frame
from tests.random_input.messages import draw_messages
from tests.random_input.truth import Draw, Truth, draw_truth, read_or_refuse

PARTS = 10
ROUNDS = {"frames": 1800, "files": 1600, "messages": 1600}  # of a part
if PROFILE != "thorough":
    ROUNDS = dict.fromkeys(ROUNDS, 30)


def _through_frame(rng: Draw, truth: Truth, folder: Path) -> bool:
    return _read(truth, *draw_frame(rng, truth))


def _through_file(rng: Draw, truth: Truth, folder: Path) -> bool:
    for path in folder.iterdir():
        path.unlink()
    return _read(truth, *draw_file(rng, truth, folder))


def _through_messages(rng: Draw, truth: Truth, folder: Path) -> bool:
    return _read(truth, *draw_messages(rng, truth), in_parts=True)


def _read(truth: Truth, said: str, read: Any, in_parts: bool = False) -> bool:
    try:
        return read_or_refuse(truth, read, in_parts)
    except Exception as error:
        error.add_note(f"{said}\n{truth}")
        raise


THROUGH = {"frames": _through_frame, "files": _through_file, "messages": _through_messages}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("form", THROUGH)
def test_rows_in_random_forms_are_read_or_refused(
    form: str, part: int, rng: np.random.Generator, tmp_path: Path
) -> None:
    taken = [THROUGH[form](rng, draw_truth(rng), tmp_path) for _ in range(ROUNDS[form])]
    assert 0.25 < np.mean(taken) < 0.9
