"""Amendments for the catalogue's chapter of refusals: calls for which torch raises an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..case import schemas
from .amend_promotion import all_operands, operands
from .dtypes_torch_lacks import LACKS
from .explain_disagreements import amends, refuse
from .natural_call import NaturalCall
from .torch_promotion import KINDS, category, promoted


def refuses(id: str, when: Callable[[NaturalCall], Any]) -> None:
    """Register a refusal for a difference: torch raises an error for the calls for which ``when`` is true."""

    def amendment(call: NaturalCall) -> Any:
        return refuse(call) if when(call) else False

    amends(id, stage=0)(amendment)


def dims_of(call: NaturalCall) -> int:
    """Return the number of dimensions along which `gradient` differentiates."""
    dim = call.given.get("dim")
    return call.first.ndim if dim is None else len(dim) if isinstance(dim, tuple) else 1


def takes_bool(call: NaturalCall) -> bool:
    """Return whether the condition's dtype is accepted: bool, and for where also uint8."""
    if "mask" in call.given:
        return call.given["mask"].dtype == np.bool_
    return call.given["condition"].dtype in (np.bool_, np.uint8)


def needs_a_copy(call: NaturalCall) -> bool:
    """Return whether reshaping the first array needs a copy, or for isin flattening either array."""
    flat = "isin" in call.op
    arrays = [x for x in (call.arrays() if flat else [call.first]) if x.size]
    return any(not np.shares_memory(x.reshape(-1 if flat else call().shape), x) for x in arrays)


def numbers(x: Any) -> tuple[int, ...]:
    return x if isinstance(x, tuple) else (x,)


def kinds(call: NaturalCall) -> set[str]:
    return {x.dtype.kind for x in call.arrays()}


def dtypes(call: NaturalCall) -> set[np.dtype]:
    return {x.dtype for x in call.arrays()}


def to_dtype(call: NaturalCall) -> bool:
    """Return whether ``dtype=`` converts the input to floats before torch checks it."""
    dtype = call.given.get("dtype")
    return dtype is not None and dtype.kind in "fc"


def all_kinds(call: NaturalCall, letters: str) -> bool:
    return bool(call.arrays()) and kinds(call) <= set(letters)


refuses(
    "no-integers",
    lambda c: (
        (c.first.dtype.kind in "bui" and not to_dtype(c))
        or (c.given.get("dtype") is not None and c.given["dtype"].kind in "bui")
    ),
)
refuses("no-bool-subtraction", lambda c: any(category(x) == 0 for x in operands(c).values()))
refuses("no-bool-rounding", lambda c: c.first.dtype.kind == "b")
refuses("no-bool", lambda c: c.first.dtype.kind == "b")
refuses("no-complex", lambda c: "c" in kinds(c))
refuses("no-complex-order", lambda c: "c" in kinds(c))
refuses("no-complex-comparison", lambda c: any(category(x) == 3 for x in all_operands(c)))
refuses("no-complex-maximum", lambda c: any(category(x) == 3 for x in all_operands(c)))
refuses("no-mixed-dtypes", lambda c: len(dtypes(c)) > 1)
refuses(
    "round-decimals-of-integers",
    lambda c: c.first.dtype.kind in "bui" and "decimals" in {a.name for a in schemas()[c.op].args},
)
refuses("imag-of-real", lambda c: c.first.dtype.kind != "c")
refuses("power-of-bools", lambda c: all(category(x) == 0 for x in all_operands(c)))
refuses("no-bool-remainder", lambda c: promoted(all_operands(c)).kind == "b")
refuses("float-functions-refuse-integers", lambda c: promoted(all_operands(c)).kind in "bui")
refuses("no-integers-linalg", lambda c: bool(kinds(c) & set("bui")))
refuses(
    "no-integers-norm",
    lambda c: bool(kinds(c) & set("bui")) or (c.given.get("dtype") is not None and c.given["dtype"].kind in "bui"),
)
refuses("no-mixed-products", lambda c: len(dtypes(c)) > 1)
refuses("no-bool-product", lambda c: kinds(c) == {"b"})
refuses("slice-step-positive", lambda c: c.full()["step"] < 1)
refuses("no-half-fft", lambda c: c.first.dtype == np.float16)
refuses("quantile-dtypes", lambda c: c.first.dtype not in (np.float32, np.float64))
refuses(
    "quantile-methods", lambda c: c.full()["interpolation"] not in ("linear", "lower", "higher", "midpoint", "nearest")
)
refuses("quantile-size", lambda c: c.first.size > 2**24)


refuses(
    "integer-alpha", lambda c: "alpha" in c.given and category(c.given["alpha"]) > KINDS[promoted(all_operands(c)).kind]
)
refuses("bool-alpha", lambda c: isinstance(c.given.get("alpha"), bool) and promoted(all_operands(c)).kind != "b")
refuses("where-needs-bool", lambda c: not takes_bool(c))
refuses("negative-tolerance", lambda c: not (c.full()["rtol"] >= 0 and c.full()["atol"] >= 0))
refuses(
    "index-put-needs-index",
    lambda c: (
        all(i is None for i in c.given["indices"]) and c.given["values"].size == 1 and not c.given.get("accumulate")
    ),
)
refuses("clamp-needs-bound", lambda c: "min" not in c.given and "max" not in c.given)
refuses("cov-weights", lambda c: "aweights" in c.given and c.given["aweights"].dtype.kind == "c")
refuses("norm-of-nothing", lambda c: not c.first.size and not 0 <= c.full().get("ord", 2) < np.inf)
refuses("view-never-copies", lambda c: needs_a_copy(c))
refuses("nanquantile-of-nothing", lambda c: not c.first.size)
refuses("missing-kernel", lambda c: lacks_kernel(c))
refuses("embedding-matrix", lambda c: c.given["weight"].ndim != 2)
refuses(
    "derivatives-spacings",
    lambda c: isinstance(c.given["spacing"], tuple) and len(c.given["spacing"]) != dims_of(c),
)
refuses("derivatives-no-bytes", lambda c: c.given["self"].dtype in (np.bool_, np.uint8))
refuses("only-floats-derive", lambda c: c.given["requires_grad"] and c.given["dtype"].kind in "bui")
refuses(
    "prims-count-from-front",
    lambda c: any(
        n < 0
        or (name in ("start", "end") and n >= max(c.first.ndim, 1))
        or c.given.get("end", 0) < c.given.get("start", 0)
        for name in ("dim", "dims", "start", "end", "shape")
        for n in numbers(c.given.get(name, ()))
    ),
)
refuses(
    "prims-no-promotion",
    lambda c: (
        len({x.shape for x in c.arrays() if x.ndim}) > 1
        or len(dtypes(c)) > 1
        or len({x.ndim > 0 for x in c.arrays()}) > 1
    ),
)


def letters(dtype: np.dtype) -> set[str]:
    if dtype.kind == "u" and dtype.itemsize > 1:
        return {"U"}
    return {dtype.kind} | ({"e"} if dtype.char == "e" else set())


def lacks_kernel(call: NaturalCall) -> bool:
    """Return whether an operator has no kernel for the dtype in which it would compute."""
    name = call.op.rpartition("::")[2]
    wanted = set(LACKS.get(name, LACKS.get(name.partition(".")[0], "")))
    operands = all_operands(call) or call.arrays()
    found = [x for x in call.given.values() if isinstance(x, np.dtype)] or ([promoted(operands)] if operands else [])
    if "isin" in call.op:
        found = [
            np.asarray(x).dtype
            for x in call.given.values()
            if not isinstance(x, bool) or x is call.given.get("test_element")
        ]
    return any(letters(dtype) & wanted for dtype in found)
