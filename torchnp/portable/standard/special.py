"""Special functions that the standard lacks; the table's kernel computes them on the host."""

from __future__ import annotations

import torchnp
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable


def _on_host(name: str, *more: str) -> None:
    """Declare an elementwise function that other rows call; libraries with their own function override it."""

    @portable(name, *more, hosted=True)
    def row(lib: ArrayLibrary, self: Array) -> Array:
        x = lib.to_float(self)
        return lib.on_host(torchnp.table[name], [x], {}, [(tuple(x.shape), lib.dtype_of(x))])[0]


_on_host("aten::erf", "aten::special_erf")
_on_host("aten::erfc")
_on_host("aten::erfinv")
_on_host("aten::lgamma")
_on_host("aten::digamma")
