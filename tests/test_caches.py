"""What is in a cache is run: a folder of another user, or one to which others may write, is not used."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dynstore import caches, host_compiler
from dynstore.caches import distrust, find_cached, is_trusted, make_private, write_cached
from tests.test_compilations import make_kernel, run_kernel


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No folder has been named yet, nor looked at."""
    monkeypatch.setattr(caches, "_warned", set())
    host_compiler._is_trusted.cache_clear()
    yield
    host_compiler._is_trusted.cache_clear()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_folders_that_are_made_are_trusted(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        make_private(tmp_path / "a" / "b")
        make_private(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert {mode_of(tmp_path / "a"), mode_of(tmp_path / "a" / "b")} == {0o700}
    assert distrust(tmp_path / "a" / "b") is None
    assert distrust(tmp_path / "a" / "not there") is None


def test_a_folder_to_which_others_may_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    for place, mode in ((folder, 0o777), (folder, 0o1777), (tmp_path, 0o777)):
        place.chmod(mode)
        assert distrust(folder) == f"other users may write to {place}; type: chmod go-w {place}"
        place.chmod(0o700)
    tmp_path.chmod(0o1777)  # as /tmp: nobody else can move what is in it
    assert distrust(folder) is None
    folder.chmod(0o777)
    assert [is_trusted(folder) for _ in range(3)] == [False] * 3
    assert len(caplog.records) == 1
    assert f"neither kept nor read in {folder}: other users may write to {folder}" in caplog.text


def test_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o770)
    monkeypatch.setattr(caches, "_is_alone", lambda group: group == tmp_path.stat().st_gid)
    assert distrust(tmp_path) is None
    monkeypatch.setattr(caches, "_is_alone", lambda group: False)
    assert "other users may write" in str(distrust(tmp_path))


def test_a_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.getuid()
    if uid == 0:
        os.chown(tmp_path, 12345, -1)
        uid = 12345
    else:
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    wanted = f"{tmp_path} belongs to another user ({uid}); set DYNSTORE_CACHE_DIR to a folder of your own"
    assert distrust(tmp_path) == wanted
    assert "belongs to another user" in str(distrust(tmp_path / "kernels"))


def test_a_link_into_a_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "open" / "mine")
    assert f"may write to {tmp_path / 'open'};" in str(distrust(tmp_path / "link"))


def test_kernels_for_cuda_are_neither_kept_nor_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNSTORE_CACHE_DIR", str(tmp_path / "cache"))
    place = find_cached("kernels", "key")
    assert place is not None
    write_cached(place, b"kernel")
    assert mode_of(tmp_path / "cache") == mode_of(place.parent) == 0o700
    place.parent.chmod(0o777)
    assert find_cached("kernels", "key") is None
    place.parent.chmod(0o755)
    assert find_cached("kernels", "key") == place


def test_kernels_for_the_host_are_neither_kept_nor_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    assert run_kernel(tmp_path, DYNSTORE_CACHE_DIR=str(folder))[0] == "41 2"
    assert run_kernel(tmp_path, DYNSTORE_CACHE_DIR=str(folder))[0] == "41 0"
    folder.chmod(0o777)
    said, warned = run_kernel(tmp_path, DYNSTORE_CACHE_DIR=str(folder))
    assert said == "41 2"
    assert warned.count("other users may write to") == 1
    folder.chmod(0o700)
    assert run_kernel(tmp_path, DYNSTORE_CACHE_DIR=str(folder))[0] == "41 0"


def test_kernels_beside_the_source_are_as_safe_as_the_source(tmp_path: Path) -> None:
    kept = tmp_path / "__pycache__"
    kept.mkdir()
    tmp_path.chmod(0o775)
    kept.chmod(0o775)
    assert host_compiler._is_trusted(kept, tmp_path)
    host_compiler._is_trusted.cache_clear()
    kept.chmod(0o777)
    assert not host_compiler._is_trusted(kept, tmp_path)


def test_a_kernel_works_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("DYNSTORE_CACHE_DIR", str(tmp_path))
    assert make_kernel()(1) == 2
    assert not list(tmp_path.rglob("*.nbc"))
