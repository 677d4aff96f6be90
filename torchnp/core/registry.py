"""Declare the NumPy functions of operators, and wrap each as a kernel."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from torchnp._private_numpy import enter_quiet, leave_quiet
from torchnp.core.elementwise_strips import stripwise, takes_strips
from torchnp.core.errors import FAILURES
from torchnp.core.fast_path import Quick, signature_of
from torchnp.core.inplace_out_spec import NOTHING, WriteSpec
from torchnp.core.schema import RESERVED, Schema, is_torchs
from torchnp.core.versioned_error_classes import of_version
from torchnp.dtypes import STORED

ndarray = np.ndarray
Body = TypeVar("Body", bound=Callable[..., Any])
Settle = Callable[
    [Any, tuple, dict[str, Any]], Any
]  # takes the results and the arguments; returns the results with torch's strides


def identity(out: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Layout hook that changes nothing."""
    return out


# Floating point flags are not errors in torch, so NumPy functions run between enter_quiet() and leave_quiet(token).

# `run_quiet` costs a quarter of these two calls, because it keeps one context in the quiet state. A context can be
# entered only once at a time: entering it from another thread or recursively raises RuntimeError, and the caller then
# takes the slower path.
_quiet_context = contextvars.Context()
_quiet_context.run(enter_quiet)
run_quiet = _quiet_context.run


class _NotGiven:
    """Placeholder for a positional argument that was not given; using it fails."""


NOT_GIVEN: Any = _NotGiven()


class Kernel(Protocol):
    """A row of the table: a plain function with metadata as attributes.

    Call it with the schema's arguments: arrays for tensors, numbers for scalars. Results are arrays
    (0-d ones too), tuples of arrays for several results, and lists for ``Tensor[]``.
    """

    name: str  # full overload name
    schema: Schema
    status: str  # "kernel", "derived" or "composite"; excluded overloads have no row
    derived_from: str | None  # the row from which it is derived
    like: Any  # the NumPy or SciPy function that a reader would expect to do the same, or None
    differences: tuple  # where that function and torch differ
    family: str  # the module that defines the row's function
    rule: str | None  # for a derived row: "in-place", "out", "copy", "foreach", "functional" or "mutating"
    row: Row  # the declaration from which it was built

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


@dataclass(frozen=True)
class Row:
    """A declaration in a family module: a NumPy function and its metadata."""

    body: Callable[..., Any]
    like: Any
    differs: tuple[str, ...]
    make: Callable[[Callable[..., Any], Schema, Settle], Callable[..., Any]] | None  # wraps the usual kernel
    quick: Quick | None = None
    writes: WriteSpec = NOTHING
    renamed: tuple[tuple[str, str], ...] = ()

    def build(self, schema: Schema, settle: Settle | None = None) -> Callable[..., Any]:
        """Return this row's kernel for one of its overloads; ``settle`` gives its results torch's strides."""
        settle = settle or identity
        made = wrap_kernel(self, schema, settle)
        if takes_strips(schema):
            made = stripwise(made)
        if self.quick is not None:
            made = with_fast_path(self.quick, schema, made, identity if self.quick.placed else settle)
        return made if self.make is None else self.make(made, schema, settle)

    @property
    def family(self) -> str:
        return self.body.__module__.removeprefix("torchnp.kernels.")


REGISTERED: dict[str, Row] = {}
FOREACH: dict[str, str] = {}  # the source op of a `_foreach_` form, if its name differs


def kernel(
    *names: str,
    like: Any = None,
    differs: Sequence[str] = (),
    make: Callable[[Callable[..., Any], Schema, Settle], Callable[..., Any]] | None = None,
    quick: Quick | None = None,
    writes: WriteSpec = NOTHING,
    foreach: str = "",
    renamed: Mapping[str, str] | None = None,
) -> Callable[[Body], Body]:
    """Declare the NumPy function that computes one or several overloads.

    Parameters
    ----------
    *names : str
        Overload names (``"var.correction"``); ``aten::`` is implied.
    like : callable, optional
        The NumPy or SciPy function that a reader would expect to do the same.
    differs : sequence of str
        Ids, in `torchnp.differences`, of the differences between that function and torch.
    make : callable, optional
        Builds the kernel from the usual kernel, the schema and the layout hook, where speed requires it.
    quick : Quick, optional
        The fast path for the commonest cases, see `torchnp.core.fast_path`.
    writes : WriteSpec, optional
        How the derived in-place and ``out=`` forms check and write, where that differs from the usual rules.
    foreach : str, optional
        Base name of the ``_foreach_`` form, if it differs.
    renamed : mapping of str, optional
        Maps the name that an argument has in other versions of torch to the function's parameter: ``{"grad":
        "grad_output"}``.

    Returns
    -------
    decorator
        Returns the function unchanged, so that declared functions can call each other as plain functions.
    """

    def declare(body: Body) -> Body:
        row = Row(body, like, tuple(differs), make, quick, writes, tuple((renamed or {}).items()))
        for name in names:
            full = name if "::" in name else f"aten::{name}"
            if full in REGISTERED:
                raise ValueError(f"{full} is declared twice: in {REGISTERED[full].family} and {row.family}")
        for name in names:
            full = name if "::" in name else f"aten::{name}"
            REGISTERED[full] = row
            if foreach:
                FOREACH[foreach] = full.partition(".")[0]
        return body

    return declare


def wrap_kernel(row: Row, schema: Schema, settle: Settle = identity) -> Callable[..., Any]:
    """Wrap a function as a kernel: no floating point warnings, arrays as results, torch's errors for mismatches."""
    body: Callable[..., Any] = row.body
    if schema.args and schema.args[0].type == "Tensor[]":
        body = _of_lists(body)
    spelled = {**RESERVED, **dict(row.renamed)}
    if renamed := {a.name: spelled[a.name] for a in schema.args if a.name in spelled}:
        body = _renaming(body, renamed)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        token = enter_quiet()
        try:
            out = body(*args, **kwargs)
            return settle(out if type(out) is ndarray else arrays(out), args, kwargs)
        except FAILURES:
            raise_mismatch(schema, args, kwargs)
            raise
        finally:
            leave_quiet(token)

    # A view computes nothing, so it needs no quiet context. It already returns arrays.
    def view(*args: Any, **kwargs: Any) -> Any:
        try:
            return body(*args, **kwargs)
        except FAILURES:
            raise_mismatch(schema, args, kwargs)
            raise

    return view if schema.is_view else kernel


def _of_lists(body: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function refuse an array that is passed for a list of tensors, instead of iterating over the array."""

    def checked(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) is ndarray:
            raise TypeError("a list of tensors is needed")
        return body(*args, **kwargs)

    return checked


def _renaming(body: Callable[..., Any], renamed: dict[str, str]) -> Callable[..., Any]:
    """Make a function accept the schema's keywords.

    Its parameters may have other names: reserved words get an underscore, and torch's names vary with the version.
    """

    def translated(*args: Any, **kwargs: Any) -> Any:
        return body(*args, **{renamed.get(k, k): v for k, v in kwargs.items()})

    return translated


def with_fast_path(twin: Quick, schema: Schema, slow: Callable[..., Any], settle: Settle) -> Callable[..., Any]:
    """Return a kernel that tries its fast path first, inside the quiet context."""
    quick, signature = twin.function, signature_of(twin.function, schema)
    alone, two, three = (signature.takes(n, {}) for n in (1, 2, 3))

    # Separate parameters are cheaper than unpacking a tuple; their names must not clash with a schema's.
    def kernel(_0: Any = NOT_GIVEN, _1: Any = NOT_GIVEN, _2: Any = NOT_GIVEN, *rest: Any, **named: Any) -> Any:
        try:
            if named or rest:
                given = (*_given(_0, _1, _2), *rest)
                if signature.takes(len(given), named):
                    out = run_quiet(quick, *given, **named)
                    if out is not None:
                        return settle(out, given, named)
            elif _1 is NOT_GIVEN:
                out = run_quiet(quick, _0) if alone else None
                if out is not None:
                    return settle(out, (_0,), named)
            elif _2 is NOT_GIVEN:
                if two:
                    out = run_quiet(quick, _0, _1)
                    if out is not None:
                        return settle(out, (_0, _1), named)
            elif three:
                out = run_quiet(quick, _0, _1, _2)
                if out is not None:
                    return settle(out, (_0, _1, _2), named)
        except RuntimeError as error:
            if not is_busy(error):
                raise
        if _2 is not NOT_GIVEN:
            return slow(_0, _1, _2, *rest, **named)
        return slow(*_given(_0, _1), **named)

    return kernel


def _given(*positional: Any) -> list[Any]:
    return [x for x in positional if x is not NOT_GIVEN]


def is_busy(error: RuntimeError) -> bool:
    """Return whether `run_quiet` failed because its context is in use, by another thread or further up the stack."""
    return str(error).startswith("cannot enter context")


def raise_mismatch(schema: Schema, args: tuple, kwargs: dict[str, Any]) -> None:
    """Raise torch's error if a failed call does not match its schema or its result's size overflows; else return.

    If the target version of torch raises the current error in another class, raise it in that class.

    torch checks a call against the schema before any kernel runs. Here the check runs only after a failure, so that
    valid calls do not pay for it.
    """
    for value in (*args, *kwargs.values()):
        for x in value if isinstance(value, (list, tuple)) else (value,):
            _check_foreign(x, schema)
    spelled = {v: k for k, v in RESERVED.items()}
    problem = schema.mismatch(args, {spelled.get(k, k): v for k, v in kwargs.items()})
    error = sys.exc_info()[1]
    if problem is not None:
        raise problem from error
    if type(error) is ValueError and str(error).startswith(TOO_LARGE):
        sizes = dict(zip((a.name for a in schema.args), args)).get("size", kwargs.get("size"))
        told = f" with sizes={[*sizes]}" if isinstance(sizes, (list, tuple)) else ""
        raise RuntimeError(f"Storage size calculation overflowed{told}") from error
    of_class = of_version(error)
    if of_class is not None:
        raise of_class from None


# NumPy's messages for sizes whose product overflows.
TOO_LARGE = ("array is too big", "Maximum allowed dimension exceeded", "iterator is too large")


def _check_foreign(x: Any, schema: Schema) -> None:
    """Raise TypeError for torch's own objects and for dtypes that torch lacks.

    For these, torch's own messages would not help the user.
    """
    module, _, _ = type(x).__module__.partition(".")
    if module == "torch" and not is_torchs(x, "dtype", "layout", "device", "memory_format"):
        remedy = "a torchnp.Generator" if is_torchs(x, "Generator") else "torchnp.interop.to_numpy(x)"
        raise TypeError(
            f"{schema.name} was given a torch.{type(x).__name__}; torchnp's kernels take NumPy arrays: pass {remedy}"
        ) from None
    if isinstance(x, (ndarray, np.generic)) and x.dtype not in _KNOWN:
        raise TypeError(
            f"{schema.name} was given an array of dtype {x.dtype.str}, which torch does not have; convert it first, "
            f"for example with x.astype(np.{'float32' if x.dtype.kind not in 'iu' else 'int64'})"
        ) from None


_KNOWN = frozenset(STORED)


def arrays(out: Any) -> Any:
    """Turn NumPy scalars among the results into 0-d arrays."""
    if type(out) is tuple:
        return tuple(x if type(x) is ndarray else arrays(x) for x in out)
    if type(out) is list:
        return [x if type(x) is ndarray else arrays(x) for x in out]
    return np.asarray(out) if isinstance(out, np.generic) else out
