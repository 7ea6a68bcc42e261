"""Memory accesses that Numba cannot express: PTX's ``cp.async``, and 8-byte reads of an int32 array.

With ``cp.async`` a thread starts copies of 16 bytes from global to shared memory that use no registers. This takes an
eighth of the instructions of a loop over 4-byte reads and writes, and all copies are in flight at once.
"""

from __future__ import annotations

import numpy as np

from dynstore.cuda.compiler import SIMULATED, device

__all__ = ["COPIED", "COPY_ALIGNMENT", "d_await_copies", "d_load_two", "d_start_copy"]

# How many int32 one copy moves, and the alignment of both places in bytes.
COPIED, COPY_ALIGNMENT = 4, 16

if SIMULATED:

    @device
    def d_start_copy(held, at, values, begin):
        """Start to copy the next COPIED of ``values``, global, to ``held``, shared int32; both indices are uint32.

        Both are aligned to COPY_ALIGNMENT. Values of type int64 are cut to 32 bits and written at once.
        """
        held[int(at) : int(at) + COPIED] = values[int(begin) : int(begin) + COPIED]

    @device
    def d_await_copies():
        """Wait for all copies that the thread has started; other threads see them after ``syncthreads``."""

    @device
    def d_load_two(values, at):
        """Return two neighbouring values below 2^31, the first in the low half; the index, uint32, is even.

        ``values`` is aligned to 8 bytes.
        """
        return np.int64(values[at]) | np.int64(values[at + 1]) << 32

else:
    from llvmlite import ir
    from numba import types

    from dynstore.cuda.compiler import intrinsic

    def _element_of(context, builder, array_type, array, index):
        """Return the address of an array's element."""
        data = context.make_array(array_type)(context, builder, array).data
        return builder.gep(data, [builder.zext(index, ir.IntType(64))])

    def _find_places(context, builder, signature, args):
        """Return the addresses of the first element to write and to read."""
        held_type, _, values_type, _ = signature.args
        held, at, values, begin = args
        target = _element_of(context, builder, held_type, held, at)
        return target, _element_of(context, builder, values_type, values, begin)

    def _copy_async(context, builder, signature, args):
        target, source = _find_places(context, builder, signature, args)
        shared = builder.addrspacecast(target, ir.PointerType(ir.IntType(32), 3))
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32), ir.IntType(64)])
        code = ir.InlineAsm(kind, "cp.async.cg.shared.global [$0], [$1], 16;", "r,l,~{memory}", side_effect=True)
        places = builder.ptrtoint(shared, ir.IntType(32)), builder.ptrtoint(source, ir.IntType(64))
        builder.call(code, places)
        return context.get_dummy_value()

    def _copy_now(context, builder, signature, args):
        target, source = _find_places(context, builder, signature, args)
        steps = [ir.Constant(ir.IntType(64), step) for step in range(COPIED)]
        read = [builder.load(builder.gep(source, [step])) for step in steps]
        for step, value in zip(steps, read, strict=True):
            builder.store(builder.trunc(value, ir.IntType(32)), builder.gep(target, [step]))
        return context.get_dummy_value()

    @intrinsic
    def d_start_copy(_, held, at, values, begin):
        """Start to copy the next COPIED of ``values``, global, to ``held``, shared int32; both indices are uint32.

        Both are aligned to COPY_ALIGNMENT. Values of type int64 are cut to 32 bits and written at once.
        """
        code = _copy_async if values.dtype == types.int32 else _copy_now
        return types.void(held, types.uint32, values, types.uint32), code

    @intrinsic
    def d_load_two(_, values, at):
        """Return two neighbouring values below 2^31, the first in the low half; the index, uint32, is even.

        ``values`` is aligned to 8 bytes.
        """

        def load(context, builder, signature, args):
            place = _element_of(context, builder, signature.args[0], *args)
            whole = builder.bitcast(place, ir.PointerType(ir.IntType(64)))
            return builder.load(whole, align=8)

        def load_each(context, builder, signature, args):
            place = _element_of(context, builder, signature.args[0], *args)
            low, high = builder.load(place), builder.load(builder.gep(place, [ir.Constant(ir.IntType(64), 1)]))
            return builder.or_(low, builder.shl(high, ir.Constant(ir.IntType(64), 32)))

        return types.int64(values, types.uint32), load if values.dtype == types.int32 else load_each

    @intrinsic
    def d_await_copies(_):
        """Wait for all copies that the thread has started; other threads see them after ``syncthreads``."""

        def wait(context, builder, signature, args):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(ir.InlineAsm(kind, "cp.async.wait_all;", "~{memory}", side_effect=True), [])
            return context.get_dummy_value()

        return types.void(), wait
