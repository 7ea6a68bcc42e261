"""Asking the processor for memory that is read soon, so that cache misses overlap with other work."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["prefetch"]

READ, KEEP, DATA = 0, 3, 1  # LLVM's arguments: for reading; into all caches; not instructions


@intrinsic
def prefetch(typing_context, array, index):
    """Start to load ``array[index]`` into the caches; an index out of bounds does no harm."""

    def generate(context, builder, signature, arguments):
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        called = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, called, "llvm.prefetch.p0")
        place = builder.bitcast(builder.gep(made.data, [arguments[1]]), pointer)
        builder.call(function, [place, number(READ), number(KEEP), number(DATA)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
