"""Operators that torch registers for tests of its own dispatcher."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_type
from torchnp.core.errors import expected_true
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.arithmetic import mul, sub
from torchnp.kernels.copy import clone
from torchnp.kernels.view import view
from torchnp.layout.overlap import check_apart

ndarray = np.ndarray


rows("_foobar _test_parallel_materialize", lambda self, *args, **kwargs: self, "The tensor itself.")
_COPIED = (
    "_test_autograd_multiple_dispatch.fullcoverage _test_warn_in_autograd _test_autograd_multiple_dispatch.ntonly "
    "_test_functorch_fallback"
)
rows(_COPIED, lambda self, *_: clone(self), "A copy of the first tensor.", like=np.copy)
_FLAT = "All values in one dimension."
rows(
    "_test_autograd_multiple_dispatch_view",
    lambda self: view(self, [-1]),
    _FLAT,
    like=np.ravel,
    differs=["view-never-copies", "view-not-copy"],
)
rows("_test_serialization_subcmul", lambda x, y, alpha: sub(x, mul(y, alpha)), "self - alpha * other.")


def _ambiguous(_: ndarray, a: Any, b: Any, *, first: int, second: Any, words: str) -> ndarray:
    check(a == first, expected_true(f"a == {first}"))
    check(b == second, expected_true(words))
    return np.array(first, dt.int64)


_NAMES, _WHOLE = "_test_ambiguous_defaults.a", "1 if both numbers are 1, else an error."
rows(_NAMES, _ambiguous, _WHOLE, first=1, second=1, words="b == 1")
_NAMES, _WHOLE = "_test_ambiguous_defaults.b", "2 if the number and the string are 2, else an error."
rows(_NAMES, _ambiguous, _WHOLE, first=2, second="2", words='b == "2"')


@kernel("_test_check_tensor")
def _test_check_tensor(self):
    """A copy if all values are true, else an error."""
    check(self.dtype == dt.bool_, "self.scalar_type() == at::kBool INTERNAL ASSERT FAILED")
    check(self.all(), "Test message for TORCH_CHECK_TENSOR_ALL")
    return clone(self)


def _precheck_addends(bound: Bound, outs: list[ndarray]) -> None:
    """If there are no addends, refuse an ``out=`` that overlaps the values, because torch copies them into it."""
    if bound["addends"] is None:
        check_apart(outs[0], bound["values"])


def _plus(values: ndarray, addends: list | int | None, *, dtype: np.dtype) -> ndarray:
    if addends is None:
        return values
    check(values.ndim == 1, expected_true("values.dim() == 1"))
    check_type(dtype, values)
    listed = [addends] * 2 if isinstance(addends, int) else list(addends)
    short = f"ArrayRef: invalid index Index = {len(listed)}; Length = {len(listed)}"
    check(len(listed) >= values.size, short)
    return values + np.array(listed[: values.size], dtype)


_LISTED = "The values plus the addends, elementwise, if there are any."
_INTEGERS, _WRITES = "_test_optional_intlist _test_optional_filled_intlist", WriteSpec(out=_precheck_addends)
rows(_INTEGERS, _plus, _LISTED, dtype=dt.int32, writes=_WRITES)
rows("_test_optional_floatlist", _plus, _LISTED, dtype=dt.float32, writes=_WRITES)


@kernel("_test_string_default")
def _test_string_default(dummy, a="\"'\\", b="\"'\\"):
    """The tensor itself if both strings are the schema's defaults, else an error."""
    check(a == "\"'\\", "Default A failed")
    check(b == "\"'\\", "Default B failed")
    return dummy
