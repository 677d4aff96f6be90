"""Maximum, minimum and clamping."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, require
from torchnp.core.errors import cannot_cast, complex_clamp, found_dtype
from torchnp.core.fast_path import exact, is_float
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.python_scalars import number, real, scalar
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels import _elementwise as el
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import orders
from torchnp.kernels.numerics.blocks import STRIP, limited, limited_halves
from torchnp.kernels.numerics.vector_tails import vector_or_tail
from torchnp.layout import stride_rules
from torchnp.layout.apply import is_plain
from torchnp.thresholds import Threshold

ndarray = np.ndarray
REAL = el.INTS | el.FLOATS

# ---------------------------------------------------------------- limits


def _no_complex(name: str) -> el.Refusals:
    return [(el.ANY_COMPLEX, RuntimeError, f"{name} not implemented for complex tensors.")]


_LIMITS = el.BOOL | REAL
_OF_TENSOR = ["three-tier-promotion", "int-float-promotion"]
_declare = partial(
    el.binary,
    takes=_LIMITS,
    differs=["no-complex-maximum", "three-tier-promotion", "int-float-promotion", "missing-kernel"],
)


def _one_of_equals(function: np.ufunc, second: bool = False) -> Callable[[ndarray, ndarray], ndarray]:
    """Make ``function`` return the first of two zeros, as torch does, or the ``second``, as torch does in bfloat16.

    NumPy's choice depends on the element's position in its SIMD vectors.
    """
    return lambda a, b: np.where(a == b, b if second else a, function(a, b))


def _limit_of_two(function: np.ufunc) -> Callable[[ndarray, ndarray], ndarray]:
    """Make ``function`` return the second of two zeros in torch's vectorized loop, and the first in its scalar tail."""
    single = _one_of_equals(function)
    return lambda a, b: vector_or_tail(function(a, b), single, a, b)


def _declare_limit(name: str, function: np.ufunc) -> Callable[..., ndarray]:
    return _declare(
        f"{name} {name[:3]}.other", function, float=_limit_of_two(function), half=function,
        half_tail=_one_of_equals(function), like=function, cpu=f"{name}_cpu", refuses=_no_complex(name),
    )  # fmt: skip


maximum, minimum = _declare_limit("maximum", np.maximum), _declare_limit("minimum", np.minimum)


# For integers torch uses maximum and minimum.
_UNSIGNED = "\"{}_cpu\" not implemented for '{{}}'"
for _name, _function, _other in (("fmax", np.fmax, "maximum"), ("fmin", np.fmin, "minimum")):
    el.binary(
        _name, _function, float=_one_of_equals(_function), bfloat16=_one_of_equals(_function, True), like=_function,
        cpu=f"{_name}_cpu", takes=_LIMITS | el.UNSIGNED, differs=["int-float-promotion"],
        refuses=[*_no_complex(_name), (el.UNSIGNED, NotImplementedError, _UNSIGNED.format(_other), "2.15")],
    )  # fmt: skip


_BY_BITS: Threshold = 1 << 10  # half-type elements; from here on, `limited_halves` is faster than `limited` in float32


def _clamp(cpu: str, takes: Any, self: ndarray, low: Any, high: Any, fixed: bool = False) -> ndarray:
    """Clamp ``self``; if ``fixed``, limits (even complex ones) do not change a floating-point tensor's dtype."""
    given = [x for x in (low, high) if x is not None]
    check(given, "torch.clamp: At least one of 'min' or 'max' must not be None")
    out = self.dtype
    if out not in el.WIDE or any(type(x) is not float and type(x) is not int for x in given):
        if not (fixed and dt.is_floating(out)):
            out = out if dt.is_complex(out) else dt.result_type(self, *given)
        if dt.is_complex(out) and (fixed or dt.is_complex(self.dtype)):
            raise complex_clamp()
        if fixed and np.isnan([real(x) for x in given]).any():  # all limits are read before anything else is checked
            return np.full_like(self, number(math.nan, out), out)
        el.check_broadcast(self, *given)
        require(cpu, out, takes)
        if fixed and out.kind in "iu" and since("2.15"):
            low, high = _within(out, low, high)
            if low is None and high is None:
                return stride_rules.cloned(dt.cast(self, out))
    elif fixed and any(x != x for x in given):
        return np.full_like(self, math.nan)
    if fixed and out in dt.HALVES and self.size >= _BY_BITS:
        least, most = (None if limit is None else scalar(limit, out) for limit in (low, high))
        if least is None or most is None or least < most:
            order, back = orders(self)
            return limited_halves(self.transpose(order), least, most).transpose(back)
    x = _limit(self, out)
    x = limited(x, *(None if limit is None else _limit(limit, out) for limit in (low, high)))
    return el.finish(x, out)


def _within(dtype: np.dtype, low: Any, high: Any) -> tuple[Any, Any]:
    """Drop limits that all integers of the dtype satisfy, and refuse limits that none does, as torch since 2.15."""
    info, name = np.iinfo(dtype), dt.scalar_name(dtype)
    words = "Clamp {} value {:g} is outside the representable range of {}"
    check(low is None or low <= info.max, words.format("min", low or 0, name))
    check(high is None or high >= info.min, words.format("max", high or 0, name))
    return None if low is None or low < info.min else low, None if high is None or high > info.max else high


def _limit(x: Any, out: np.dtype) -> ndarray:
    """Round a tensor or number to the result dtype, and convert it to the compute dtype."""
    x = dt.cast(x, out) if isinstance(x, ndarray) else scalar(x, out)
    return x if out in el.WIDE else dt.cast(x, dt.opmath(out))


_CLAMP = [
    "three-tier-promotion",
    "number-promotion",
    "number-wraps",
    "missing-kernel",
    "fill-overflow",
    "clamp-zero-sign",
]


def _quick_clamp(self, min=None, max=None):
    """Clamp a small float32 or float64 tensor by two numbers that are within float32's range; else return None."""
    if not is_float(self) or not self.ndim or self.size > STRIP or not is_plain(self):
        return None
    if (type(min) is not float and type(min) is not int) or (type(max) is not float and type(max) is not int):
        return None
    if not (-1e18 < min < 1e18 and -1e18 < max < 1e18):
        return None
    x = np.maximum(scalar(min, self.dtype), self)
    return np.minimum(scalar(max, self.dtype), x, out=x)


def _precheck_inplace(bound: Bound, _: list[ndarray]) -> None:
    """Check the result dtype, which limits can change for integer tensors, before the limits' values."""
    x, *given = (n for n in bound.values() if n is not None)
    others = (ndarray, complex) if len(bound) == 2 else ndarray  # the one-sided ops refuse complex limits first
    if not dt.is_inexact(x.dtype) and not any(isinstance(n, others) for n in given):
        found = dt.result_type(x, *given)
        check(found == x.dtype, cannot_cast(found, x.dtype, dt.c_name))


def _precheck_out(bound: Bound, targets: list[ndarray]) -> tuple[int, ...]:
    """Check the result dtype before the limits' values; a floating tensor keeps its own dtype."""
    x, limits = bound["self"], [name for name in ("min", "max") if name in bound]
    given = [bound[name] for name in limits if bound[name] is not None]
    # Complex limits are refused earlier for integers, and always by the one-sided ops.
    refused = any(isinstance(n, complex) for n in given) and (len(limits) == 1 or not dt.is_floating(x.dtype))
    if given and not dt.is_complex(x.dtype) and not refused:
        found = x.dtype if dt.is_floating(x.dtype) else dt.result_type(x, *given)
        check(targets[0].dtype == found, found_dtype(targets[0].dtype, found))
    return ()


_WRITES = WriteSpec(inplace=_precheck_inplace, out=_precheck_out)
_OF_CLAMP: dict[str, Any] = {"like": np.clip, "differs": [*_CLAMP, "clamp-needs-bound"], "writes": _WRITES}


@kernel("clamp", "clip", quick=exact(_quick_clamp, placed=True), **_OF_CLAMP)
def clamp(self: ndarray, min: Any = None, max: Any = None) -> ndarray:
    """Elements limited to [min, max]; nan stays, and max wins if min exceeds it."""
    cpu = "clamp_min_scalar_cpu" if max is None else "clamp_max_scalar_cpu" if min is None else "clamp_scalar_cpu"
    return _clamp(cpu, REAL, self, min, max, fixed=True)


@kernel("clamp.Tensor", "clip.Tensor", like=np.clip, differs=["clamp-needs-bound", "missing-kernel", *_OF_TENSOR])
def clamp_tensor(self: ndarray, min: ndarray | None = None, max: ndarray | None = None) -> ndarray:
    """Elements limited to [min, max], elementwise."""
    if not dt.is_complex(self.dtype):
        el.check_broadcast(self, *(x for x in (min, max) if x is not None))
    if min is not None and max is not None:
        return _clamp("clamp_cpu", REAL, self, min, max)
    return _clamp("maximum_cpu" if max is None else "minimum_cpu", _LIMITS, self, min, max)


def _clamp_one(self: ndarray, *, min: Any = None, max: Any = None, op: str) -> ndarray:
    if isinstance(min, complex) or isinstance(max, complex):
        raise complex_clamp()
    return _clamp(f"{op}_scalar_cpu", REAL, self, min, max, fixed=True)


_row = partial(rows, differs=_CLAMP, writes=_WRITES)
(clamp_min,) = _row("clamp_min", _clamp_one, "Limit from below.", like=np.maximum, foreach="maximum")
_row("clamp_max", _clamp_one, "Limit from above.", like=np.minimum, foreach="minimum")
# Of two equal zeros, torch returns the first, except in some of its vectorized loops; NumPy returns the second.
_of_tensor = partial(el.binary, takes=_LIMITS, differs=["missing-kernel", *_OF_TENSOR])
_of_tensor("clamp_min.Tensor", lambda a, b: np.maximum(b, a), cpu="maximum_cpu", like=np.maximum)
_of_tensor("clamp_max.Tensor", lambda a, b: np.minimum(b, a), cpu="minimum_cpu", like=np.minimum)
