"""Rates of the link: measured once for each GPU and size, and kept on disk; what is wrong there is measured again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynstore import caches
from dynstore.backend import Backend
from dynstore.stores.paged import links
from dynstore.stores.paged.links import USUAL_LINKS, Links, find_links, measure_links

SMALL, LARGE = (np.zeros(words, np.uint32) for words in (1 << 23, 1 << 24))


class Gpu:
    """A GPU whose link is not there: what a backend says of it, and rates that differ each time they are measured."""

    on_gpu = True

    def __init__(self) -> None:
        self.number, self.name, self.uuid, self.bus, self.driver_version = (
            0,
            b"NVIDIA A1",
            b"\x01\x02",
            "0000:01",
            13000,
        )
        self.measured = 0
        device = SimpleNamespace(getDevice=lambda: self.number, driverGetVersion=lambda: self.driver_version)
        device.getDeviceProperties = lambda number: {"name": self.name, "uuid": self.uuid}
        cuda = SimpleNamespace(runtime=device, Device=lambda: SimpleNamespace(id=self.number, pci_bus_id=self.bus))
        self.xp = SimpleNamespace(cuda=cuda)

    def measure(self, backend: Any, words: np.ndarray, on_host: np.ndarray) -> Links:
        self.measured += 1
        return Links(50e9 + self.measured / 3, 3e8)

    def find(self, words: np.ndarray = SMALL) -> Links:
        return find_links(self, words, words)  # type: ignore[arg-type]

    def find_in_another_process(self, words: np.ndarray = SMALL) -> Links:
        links._known.clear()
        return self.find(words)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("DYNSTORE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(links, "_known", {})
    return tmp_path / "links"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Gpu:
    found = Gpu()
    monkeypatch.setattr(links, "measure_links", found.measure)
    return found


def test_rates_are_kept_for_other_processes(gpu: Gpu, folder: Path) -> None:
    first = gpu.find()
    assert gpu.find() is first
    assert gpu.find_in_another_process() == first
    (path,) = folder.iterdir()
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert (kept["gpu"], kept["uuid"], kept["bus"], kept["driver"]) == ("NVIDIA A1", "0102", "0000:01", 13000)
    assert Links(kept["bytes_a_second"], kept["requests_a_second"]) == first
    assert gpu.measured == 1
    path.unlink()  # how users have them measured again
    assert gpu.find() == first
    assert gpu.find_in_another_process() != first
    assert gpu.measured == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("number", 1), ("name", b"NVIDIA A2"), ("uuid", b"\x01\x03"), ("bus", "0000:02"), ("driver_version", 13010)],
)
def test_rates_are_those_of_one_gpu_and_driver(gpu: Gpu, folder: Path, name: str, value: Any) -> None:
    first = gpu.find()
    setattr(gpu, name, value)
    other = gpu.find_in_another_process()
    assert (other == first) == (name == "number")  # the same GPU may have another number in another process
    assert len(list(folder.iterdir())) == gpu.measured == (1 if name == "number" else 2)


def test_each_gpu_of_a_process_has_its_rates(gpu: Gpu) -> None:
    first = gpu.find()
    gpu.number, gpu.uuid, gpu.bus = 1, b"\x02\x02", "0000:02"
    assert gpu.find() != first
    gpu.number = 0
    assert gpu.find() is first


def test_rates_are_those_of_a_size_and_a_format(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = gpu.find(SMALL), gpu.find(LARGE)
    assert gpu.find_in_another_process(LARGE) == second != first
    assert gpu.find(np.zeros(3 << 22, np.uint32)) == first  # less than twice the small size
    monkeypatch.setattr(links, "VERSION", links.VERSION + 1)
    assert gpu.find_in_another_process(SMALL) not in (first, second)


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: b"",
        lambda kept: b"\xff\xfe",
        lambda kept: kept[:40],
        lambda kept: b"[1, 2]",
        lambda kept: b"null",
        lambda kept: b"[" * 200_000,
        lambda kept: kept.replace(b'"bytes_a_second": 5', b'"bytes_a_second": 1%0400d, "more": 5' % 0),
        lambda kept: kept.replace(b'"bytes_a_second": 5', b'"bytes_a_second": -5'),
        lambda kept: kept.replace(b'"requests_a_second": 3', b'"requests_a_second": NaN, "more": 3'),
        lambda kept: kept.replace(b'"requests_a_second": 3', b'"requests_a_second": Infinity, "bus": 3'),
        lambda kept: kept.replace(b'"requests_a_second"', b'"requests"'),
        lambda kept: kept.replace(b'"requests_a_second": 3', b'"requests_a_second": null, "more": 3'),
        lambda kept: kept.replace(b"0000:01", b"0000:02"),
    ],
)
def test_a_damaged_file_is_written_anew(gpu: Gpu, folder: Path, damage: Any) -> None:
    first = gpu.find()
    (path,) = folder.iterdir()
    damaged = damage(path.read_bytes())
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    second = gpu.find_in_another_process()
    assert second != first
    assert gpu.find_in_another_process() == second
    assert [each.name for each in folder.iterdir()] == [path.name]


@pytest.mark.skipif(os.name == "nt", reason="paths of POSIX")
@pytest.mark.parametrize("place", ["/proc/nowhere", "a file", "a folder where the file would be"])
def test_what_cannot_be_written_or_read_is_measured(
    gpu: Gpu, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    if place == "a file":
        folder.write_bytes(b"")
    elif place.startswith("a folder"):
        gpu.find()
        (path,) = folder.iterdir()
        path.unlink()
        path.mkdir()
    else:
        monkeypatch.setenv("DYNSTORE_CACHE_DIR", place)
    before = gpu.measured
    assert gpu.find_in_another_process() != gpu.find_in_another_process()
    assert gpu.measured == before + 2
    assert not list(tmp_path.rglob("write-*"))


def test_without_a_home_nothing_is_kept(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(caches, "cache_folder", refuse)
    assert gpu.find_in_another_process() != gpu.find_in_another_process()


def test_small_memory_has_usual_rates(gpu: Gpu, folder: Path) -> None:
    assert gpu.find(np.zeros(1 << 12, np.uint32)) == USUAL_LINKS
    assert gpu.measured == 0
    assert not folder.exists()


def test_a_link_is_measured_and_kept(backend: Backend, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memories = [backend.pinned(words, np.uint32) for words in (1 << 12, 1 << 23, 1 << 24, 3 << 23)]
    found = [find_links(backend, *memory) for memory in memories]
    assert found[0] == measure_links(backend, *memories[0]) == USUAL_LINKS
    if not backend.on_gpu:
        assert found == [USUAL_LINKS] * 4
        assert not folder.exists()
        return
    assert found[1] != found[2] == found[3]
    assert min(map(min, found)) > 1e6
    assert len(list(folder.iterdir())) == 2
    monkeypatch.setattr(links, "_known", {})
    assert found == [find_links(backend, *memory) for memory in memories]
    now = measure_links(backend, *memories[2])
    assert 0.3 < now.bytes_a_second / found[2].bytes_a_second < 3
