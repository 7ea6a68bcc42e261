"""The wheel of ``dynstore-borrowed``, which brings the library built: ``python -m ...borrowed.wheel --out dist``.

It is for the RAPIDS and the CUDA that are installed where it is made, for this processor, and for every Python of the
stable ABI. Users who install it need no compiler and no headers. A library whose sources are others than those of the
installed dynstore is not used, as its folder has another name.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import platform
import sys
import tempfile
import zipfile
from pathlib import Path

from dynstore import __version__
from dynstore.adapters.cugraph.borrowed.builder import (
    LIBRARY,
    PACKAGE,
    BuildError,
    cache_key,
    compile_library,
)
from dynstore.adapters.cugraph.borrowed.toolchain import (
    RAPIDS_LINE,
    cuda_major,
    find_rapids,
    find_toolchain,
    rapids_version,
)
from dynstore.errors import MissingDependencyError

__all__ = ["main", "make_wheel"]

CALLER = "make wheels"
DATE = (1980, 1, 1, 0, 0, 0)  # the earliest of a zip; the same files make the same wheel


def make_wheel(site: Path, out: Path) -> Path:
    """Build the library for the RAPIDS in ``site``, and pack it as a wheel.

    Parameters
    ----------
    site : Path
        The folder that pylibcugraph is installed in.
    out : Path
        The folder of the wheel; made if it is not there.

    Raises
    ------
    MissingDependencyError
        With all that is missing, and the lines to type.
    BuildError
        If it cannot be built.
    """
    toolchain, cuda, version = find_toolchain(site), cuda_major(site), rapids_version(site)
    if not cuda or version == "unknown":  # both are in the wheel's name
        what = "release" if cuda else "version of CUDA"
        raise MissingDependencyError(f"the {what} of pylibcugraph in {site} was not found; wanted one of pip or conda")
    key = cache_key(version, cuda)
    with tempfile.TemporaryDirectory() as folder:
        library = compile_library(toolchain, Path(folder), Path(folder) / "failed.txt").read_bytes()
    minor = ".".join(str(int(part)) for part in version.split(".")[:2])
    name, release = f"{PACKAGE}_cu{cuda}", f"{minor}.{__version__}"
    abi = "abi3" if "-abi3-" in key else f"cp{sys.version_info[0]}{sys.version_info[1]}t"
    python = "cp311" if abi == "abi3" else abi.rstrip("t")
    tag, info = f"{python}-{abi}-linux_{platform.machine()}", f"{name}-{release}.dist-info"
    files = {
        f"{PACKAGE}/__init__.py": f'"""dynstore\'s library for cuGraph, built for RAPIDS {version}."""\n'.encode(),
        f"{PACKAGE}/{key}/{LIBRARY}": library,
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {release}\n"
            f"Summary: dynstore's library for cuGraph, built for RAPIDS {version} and CUDA {cuda}\n"
            f"License: Apache-2.0\nRequires-Python: >=3.11\nRequires-Dist: dynstore=={__version__}\n"
        ).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: dynstore\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    files[f"{info}/RECORD"] = "".join(
        [*(f"{path},{_digest(data)},{len(data)}\n" for path, data in files.items()), f"{info}/RECORD,,\n"]
    ).encode()
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{name}-{release}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, DATE)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return wheel


def _digest(data: bytes) -> str:
    """Return the hash of a file as the list of a wheel's files has it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def main(arguments: list[str]) -> int:
    """Make the wheel and print its path; return 2, after one line, if something is missing."""
    parser = argparse.ArgumentParser(prog=CALLER, description=str(__doc__).partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("dist"), help="the folder of the wheel")
    options = parser.parse_args(arguments)
    try:
        site = find_rapids()
        if site is None:
            raise MissingDependencyError(f"pylibcugraph was not found; to get it: {RAPIDS_LINE}")
        print(make_wheel(site, options.out))
    except (BuildError, MissingDependencyError, OSError) as error:
        print(f"{CALLER}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
