"""Saved graphs whose content was changed, and whose checksums were made right again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dynstore.graph import saving

__all__ = ["read_manifest", "rewrite_columns", "rewrite_manifest"]


def read_manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return manifest


def rewrite_manifest(folder: Path, **changes: Any) -> None:
    """Change entries of the manifest, with a right checksum; its own entry excepted."""
    manifest = {**read_manifest(folder), **changes}
    manifest.pop("checksum", None)
    manifest["checksum"] = saving._checksum(saving._dump(manifest))
    (folder / "manifest.json").write_bytes(saving._dump(manifest))


def rewrite_columns(folder: Path, **columns: Any) -> None:
    """Change columns, which keep their dtypes unless they are arrays; the manifest says what they have."""
    parts = read_manifest(folder)["parts"]
    for part in parts:
        if part["name"] in columns:
            given = columns[part["name"]]
            array = given if isinstance(given, np.ndarray) else np.array(given, part["dtype"])
            (folder / part["file"]).write_bytes(array.tobytes())
            part |= {"dtype": array.dtype.str, "shape": list(array.shape), "bytes": array.nbytes}
            part["checksum"] = saving._checksum(array.tobytes())
    rewrite_manifest(folder, parts=parts)
