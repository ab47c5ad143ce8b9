"""How functions of the memory are compiled, and one instruction that numba lacks."""

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

compiled: Any = numba.njit(nogil=True, cache=True)
"""Compiled on its first call, once for a machine, and free of the interpreter while it runs."""
fused: Any = numba.njit(nogil=True, cache=True, fastmath={"contract"})
"""Also: a product and a sum may be one operation, rounded once."""

CACHE_LINE = 64
_READ, _INTO_LEVEL_2, _DATA = 0, 2, 1


@intrinsic
def _prefetch(typing_context: Any, array: Any, place: Any) -> Any:  # noqa: ANN401 — numba's own types
    """Have the processor fetch the cache line of array[place] while it goes on; `place` is a tuple of numbers
    from 0 on.

    Rows are touched at random: without it, the kernel waits for memory half of its time.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        array_type, place_type = signature.args
        value = context.make_array(array_type)(context, builder, args[0])
        indices = cgutils.unpack_tuple(builder, args[1], len(place_type))
        pointer = cgutils.get_item_pointer(context, builder, array_type, value, indices, wraparound=False)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        hints = [number(hint) for hint in (_READ, _INTO_LEVEL_2, _DATA)]
        builder.call(function, [builder.bitcast(pointer, byte), *hints])
        return context.get_dummy_value()

    return types.void(array, place), generate


prefetch: Any = _prefetch
