"""Strings in arrays of a CUDA device."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.lookup import provided

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["CodedStrings", "DeviceStrings", "cudf_strings", "encoded_strings"]


@dataclass(frozen=True, slots=True)
class DeviceStrings:
    """Strings of UTF-8: where each begins and ends among the bytes.

    A choice of strings, or another order, needs no copy of bytes.

    Attributes
    ----------
    backend : Backend
        With CUDA kernels.
    starts, ends : array, shape (B,), int32 or int64
    chars : array, uint8
    """

    backend: Backend
    starts: Array
    ends: Array
    chars: Array

    @classmethod
    def nothing(cls, backend: Backend) -> DeviceStrings:
        """Return no strings."""
        places = backend.nothing(np.int64)
        return cls(backend, places, places, backend.nothing(np.uint8))

    @classmethod
    def of_offsets(cls, backend: Backend, offsets: Array, chars: Array) -> DeviceStrings:
        """Return strings that follow each other, as in Arrow; ``offsets`` has the shape (B + 1,)."""
        return cls(backend, offsets[:-1], offsets[1:], chars)

    @classmethod
    def of_host(cls, backend: Backend, values: np.ndarray) -> DeviceStrings:
        """Copy an array of strings to the device.

        Raises
        ------
        UnicodeEncodeError
            For a string that UTF-8 cannot encode.
        """
        if not values.shape[0]:
            return cls.nothing(backend)
        ends, data = encoded_strings(values)
        offsets = np.concatenate((np.zeros(1, np.int64), ends))
        return cls.of_offsets(backend, backend.asarray(offsets), backend.asarray(np.frombuffer(data, np.uint8)))

    @property
    def shape(self) -> tuple[int]:
        return (int(self.starts.shape[0]),)

    @property
    def nbytes(self) -> int:
        return int(self.starts.nbytes + self.ends.nbytes + self.chars.nbytes)

    def __getitem__(self, row: int) -> str:
        text: str = self.rows(self.backend.asarray(np.array([row]))).to_host()[0]
        return text

    def rows(self, chosen: Array) -> DeviceStrings:
        """Return some strings, given by a mask or by numbers; their bytes are shared."""
        return DeviceStrings(self.backend, self.starts[chosen], self.ends[chosen], self.chars)

    def packed(self) -> tuple[Array, Array]:
        """Return offsets, int64, shape (B + 1,), and the bytes of the strings one after another, in new arrays."""
        kernels = self.backend.kernels("dynstore.ids", "string_copies")
        packed: tuple[Array, Array] = kernels.pack_strings(self.backend, self.starts, self.ends, self.chars)
        return packed

    def to_host(self) -> np.ndarray:
        """Return an array of Python strings, dtype object."""
        found = np.empty(self.shape[0], dtype=object)
        if self.shape[0]:
            offsets, chars = (self.backend.to_host(array) for array in self.packed())
            data, bounds = chars.tobytes(), offsets.tolist()
            if data.isascii():
                whole = data.decode()
                found[:] = [whole[start:end] for start, end in pairwise(bounds)]
            else:
                found[:] = [data[start:end].decode() for start, end in pairwise(bounds)]
        return found


@dataclass(frozen=True, slots=True)
class CodedStrings:
    """Rows of a dictionary of strings: row ``i`` holds ``values[codes[i]]``.

    Attributes
    ----------
    values : DeviceStrings
        Distinct; some may have no row.
    codes : array, shape (B,), int64
    """

    values: DeviceStrings
    codes: Array

    @property
    def shape(self) -> tuple[int]:
        return (int(self.codes.shape[0]),)

    @property
    def repeats(self) -> bool:
        """Whether the dictionary is shorter than the column."""
        return self.values.shape[0] < self.shape[0]

    def expanded(self) -> DeviceStrings:
        """Return the strings of the rows."""
        return self.values.rows(self.codes)


def encoded_strings(values: np.ndarray) -> tuple[np.ndarray, bytes]:
    """Return where each string ends, int64, and all of them in UTF-8, one after another.

    Raises
    ------
    UnicodeEncodeError
        For a string that UTF-8 cannot encode; it is the error's ``object``.
    """
    texts = values.tolist()
    whole = "".join(texts)
    # Where all characters are ASCII, as mostly, each is a byte: a fourth of the time.
    pieces = texts if whole.isascii() else [text.encode() for text in texts]
    return np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces))), whole.encode()


def cudf_strings() -> Any:
    """Import what reads strings of cuDF, and makes them."""
    return provided("strings")
