"""Updates are timed kernel by kernel, and as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import kernel_times
from benchmarks.kernel_times import main, time_launches
from dynstore.backend import get_backend
from dynstore.bench.schema import check_document
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph


@pytest.fixture
def cuda_device() -> str:
    """A device with CUDA kernels."""
    from dynstore.cuda import compiler

    if not compiler.SIMULATED and not get_backend().on_gpu:
        pytest.skip("no CUDA device")
    return "cuda-sim" if compiler.SIMULATED else "cuda"


def test_kernels_and_whole_calls_are_timed(
    cuda_device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many of the one as of the other."""
    path = tmp_path / "out.json"
    monkeypatch.setattr(kernel_times, "MIN_WARM_UPS", 2)
    small = ["--device", cuda_device, "--scale", "6", "--edge-factor", "8", "--steps", "2"]
    assert main([*small, "--batch", "3,20", "--store", "gpma+,merge", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    check_document(document)
    steps = {(row["store"], row["operation"], row["batch"]): row["steps"] for row in document["rows"]}
    for size in (3, 20):
        for store in ("gpma+", "merge"):
            assert steps[store, "insert", size] == steps[store, "delete", size] == 2
    assert steps["gpma+, k_find_present", "delete", 3] == 2
    assert any(store.startswith("gpma+, k_") and operation == "insert" for store, operation, _ in steps)
    assert document["agree"]
    assert "batches of 20" in capsys.readouterr().out


def test_launches_are_timed_in_order_and_only_in_the_block(cuda_device: str) -> None:
    graph = DynamicGraph(device=cuda_device)
    graph.insert_edges(([0, 1, 5], [1, 2, 3]))
    with time_launches(get_backend(cuda_device)) as read:
        graph.delete_edges(([1], [2]))
        launched = read()
        assert read() == []
    graph.delete_edges(([0], [1]))
    assert read() == []
    assert [name for name, _ in launched][:2] == ["k_find_bounds", "k_find_present"]
    assert all(passed_ms > 0 for _, passed_ms in launched)


@pytest.mark.parametrize("batch", ["0", "100000"])
def test_batches_have_to_fit_into_the_graph(cuda_device: str, batch: str) -> None:
    with pytest.raises(InputError, match=r"kernel_times: \d+ batches of \d+ edges; wanted 1 to \d+"):
        main(["--device", cuda_device, "--scale", "6", "--edge-factor", "8", "--batch", batch])
