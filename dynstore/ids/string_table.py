"""The table of string ids on CUDA: strings stay on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError
from dynstore.ids.columns import StringKeys
from dynstore.ids.hash_table import HashTable
from dynstore.ids.strings import CodedStrings, DeviceStrings, cudf_strings
from dynstore.ids.tables import SPARE, IdTable, KeptSeries, Match
from dynstore.scratch import ScratchCache

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.ids.columns import Keys
    from dynstore.typing import Array

__all__ = ["HASH_MASK", "DeviceStringTable"]

# The bits of a hash that count; keys of the table are not negative.
HASH_MASK = 2**63 - 1
# Up to this share of the ids that the host does not have are read by themselves, and not all of them.
FEW = 8


class DeviceStringTable(IdTable):
    """Strings in arrays of the device: a hash table, and the strings by number.

    The bytes of new strings follow those of the others. Where a new id takes a number, the bytes of the last one stay
    until the bytes need more room.
    """

    kind = "string"

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.table = HashTable.allocate(backend, 0)
        self.count = 0
        nothing = backend.empty(0, np.int64)
        # With room behind the last id.
        self._buffers = DeviceStrings(backend, nothing, nothing, backend.empty(0, np.uint8))
        self._used, self._unused = 0, 0  # bytes; the latter of strings that have lost their number
        self.scratch = ScratchCache()
        # What results have made of the first ids. Nothing is made for updates.
        self._on_host = np.empty(0, dtype=object)
        self._series = KeptSeries()
        self._column: Any = None  # all ids as a cuDF column, or None

    @property
    def _kernels(self) -> Any:
        return self.backend.kernels("dynstore.ids", "strings")

    def held(self) -> DeviceStrings:
        held = self._buffers
        return DeviceStrings(self.backend, held.starts[: self.count], held.ends[: self.count], held.chars[: self._used])

    def no_keys(self) -> Keys:
        return DeviceStrings.nothing(self.backend)

    def _on_device(self, caller: str, keys: Keys) -> DeviceStrings:
        """Return a column of strings on the device; those of the host are copied there, categories each once."""
        if isinstance(keys, DeviceStrings):
            return keys
        if isinstance(keys, CodedStrings):
            return keys.expanded()
        assert isinstance(keys, StringKeys)
        try:
            strings = DeviceStrings.of_host(self.backend, keys.values)
        except UnicodeEncodeError as error:
            raise InputError(f"{caller}: {error.object!r} cannot be an id: UTF-8 cannot encode it") from error
        return strings if keys.codes is None else strings.rows(self.backend.asarray(keys.codes))

    def start_match(self, src: Keys, dst: Keys, dtype: np.dtype) -> tuple[Array, Array] | None:
        if isinstance(src, StringKeys) or isinstance(dst, StringKeys):
            return None
        codes = [keys.codes if isinstance(keys, CodedStrings) and keys.repeats else None for keys in (src, dst)]
        parts = [
            self._on_device("", keys) if chosen is None else keys.values
            for keys, chosen in zip((src, dst), codes, strict=True)
        ]
        found = self._kernels.start_match(self.backend, self.table, self.held(), HASH_MASK, parts, dtype, self.scratch)
        first, second = (
            numbers if chosen is None else numbers[chosen] for numbers, chosen in zip(found, codes, strict=True)
        )
        return first, second

    def match(self, caller: str, names: Sequence[str], parts: list[Keys], dtype: np.dtype) -> Match:
        backend, kernels = self.backend, self._kernels
        strings = [self._on_device(caller, part) for part in parts]
        found = kernels.match_strings(backend, self.table, self.held(), HASH_MASK, strings, dtype)
        new = kernels.rank_new(backend, found)
        return Match(found.columns, new, lambda numbers: kernels.number_rows(backend, found, numbers))

    def plan_write(self, ids: Any, numbers: Array, count: int, replacing: bool) -> Callable[[], None]:
        backend, kernels = self.backend, self._kernels
        if not isinstance(ids, DeviceStrings):
            ids = DeviceStrings.of_host(backend, ids)
        size, held, used, unused = int(ids.chars.shape[0]), self._buffers, self._used, self._unused
        forgotten = numbers[numbers < self.count] if replacing else numbers[:0]
        if held.starts.shape[0] < count or held.chars.shape[0] < used + size:
            held, used = self._with_room(count, size)
            unused = 0
        if replacing:
            unused += int((held.ends[forgotten] - held.starts[forgotten]).sum())
        held.chars[used : used + size] = ids.chars
        table, filled = self.table, self.table.filled + ids.shape[0]
        if not table.takes(ids.shape[0]):
            filled = self.count + ids.shape[0]
            table = HashTable.allocate(backend, filled)
            everyone = backend.xp.arange(self.count, dtype=np.int64)
            strings = DeviceStrings(backend, held.starts[: self.count], held.ends[: self.count], held.chars)
            kernels.enter_strings(table, HASH_MASK, held.starts, held.ends, strings, 0, everyone)
        remove = backend.prepare(kernels.remove_strings, table, HASH_MASK, held, forgotten)
        enter = backend.prepare(kernels.enter_strings, table, HASH_MASK, held.starts, held.ends, ids, used, numbers)

        def commit() -> None:
            remove()
            enter()
            table.filled = filled
            self.table, self._buffers, self.count = table, held, count
            self._used, self._unused, self._column = used + size, unused, None
            if replacing:
                self._on_host, self._series = np.empty(0, dtype=object), KeptSeries()

        return commit

    def _with_room(self, count: int, size: int) -> tuple[DeviceStrings, int]:
        """Return the strings in new buffers with room for ``count`` ids and ``size`` more bytes; and bytes in use."""
        backend, strings = self.backend, self.held()
        if self._unused:
            strings = DeviceStrings.of_offsets(backend, *strings.packed())
        used = int(strings.chars.shape[0])
        starts, ends = (backend.empty(int(count * SPARE), np.int64) for _ in range(2))
        chars = backend.empty(int((used + size) * SPARE), np.uint8)
        starts[: self.count], ends[: self.count], chars[:used] = strings.starts, strings.ends, strings.chars
        return DeviceStrings(backend, starts, ends, chars), used

    def of(self, numbers: Array, holes: bool) -> Array:
        places = self.backend.to_host(numbers)
        there = places >= 0
        ids = np.full(places.shape[0], None, dtype=object)
        if places.shape[0] < (self.count - self._on_host.shape[0]) // FEW:
            ids[there] = self.held().rows(numbers[self.backend.asarray(there)]).to_host()
        else:
            ids[there] = self.all()[places[there]]
        return ids

    def gives_columns(self, library: str) -> bool:
        """Return whether :meth:`column` leaves the strings on the device."""
        return library == "cudf" and self.backend.on_gpu

    def in_order(self, src: Array, dst: Array) -> tuple[Array, Array]:
        """Return pairs of numbers with the number of the lower string first."""
        low, high = self.backend.empty_arena((src.shape[0], src.dtype), (dst.shape[0], dst.dtype))
        self._kernels.order_ends(self.held(), src, dst, low, high)
        return low, high

    def by_id(self, numbers: Array) -> Array:
        """Return distinct numbers in ascending order of the strings."""
        return numbers[self._kernels.order_strings(self.backend, self.held().rows(numbers))]

    def column(self, library: str, numbers: Array | None) -> Any:
        if self.gives_columns(library):
            if self._column is None:
                self._column = cudf_strings().make_column(self.held())
            return cudf_strings().make_series(self.backend, self._column, numbers)
        if library == "pandas":
            places = None if numbers is None else self.backend.to_host(numbers)
            return self._series.of(self.count, lambda first, last: self.all()[first:last].copy(), places)
        return super().column(library, numbers)

    def all(self) -> Array:
        kept, held = self._on_host, self._buffers
        if kept.shape[0] < self.count:
            new = slice(kept.shape[0], self.count)
            strings = DeviceStrings(self.backend, held.starts[new], held.ends[new], held.chars)
            self._on_host = kept = np.concatenate((kept, strings.to_host()))
        return kept

    def order(self, ranks: Array) -> Array:
        backend, xp = self.backend, self.backend.xp
        places = backend.empty(self.count, np.int64)
        places[self._kernels.order_strings(backend, self.held())] = xp.arange(self.count, dtype=np.int64)
        return xp.lexsort(xp.stack((places, -ranks.astype(np.int64))))

    def take(self, ids: Any, order: Array) -> Any:
        if not isinstance(ids, DeviceStrings):
            return ids[self.backend.to_host(order)]
        chosen = ids.rows(order)
        return DeviceStrings.of_offsets(self.backend, *chosen.packed()) if self._unused else chosen

    def empty_twin(self) -> IdTable:
        return DeviceStringTable(self.backend)

    def copy(self) -> IdTable:
        twin = DeviceStringTable(self.backend)
        twin.table, twin.count, twin._used = self.table.copy(self.backend), self.count, self._used
        twin._buffers = DeviceStrings(
            self.backend, *(array.copy() for array in (self._buffers.starts, self._buffers.ends, self._buffers.chars))
        )
        twin._unused, twin._on_host, twin._series = self._unused, self._on_host, KeptSeries(self._series.kept)
        return twin

    def memory_usage(self) -> int:
        return int(self.table.cells.nbytes) + self._buffers.nbytes + self.scratch.nbytes
