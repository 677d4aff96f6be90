"""Mutants: kernels with one fault each, and the outcome with which the harness must report the fault."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..case import is_complex, is_inexact

Kernel = Callable[..., Any]


def on_arrays(change: Callable[[np.ndarray], Any]) -> Callable[[Kernel], Kernel]:
    """Return the mutation that changes every array of the result."""

    def apply(out: Any) -> Any:
        if isinstance(out, (tuple, list)):
            return type(out)(apply(o) for o in out)
        return change(out) if isinstance(out, np.ndarray) else out

    return lambda kernel: lambda *args, **kwargs: apply(kernel(*args, **kwargs))


def wider(a: np.ndarray) -> np.ndarray:
    return a.astype(np.complex128 if is_complex(a.dtype) else np.int32 if not is_inexact(a.dtype) else np.float64)


def next_up(a: np.ndarray) -> np.ndarray:
    """Return the array with every float increased by one unit in the last place, every integer by one, and every bool
    negated."""
    if a.dtype == np.bool_:
        return ~a
    if is_inexact(a.dtype):
        bits = np.array(a, copy=True).view(f"u{a.dtype.itemsize}")
        bits += 1
        return bits.view(a.dtype)
    return a + np.ones((), a.dtype)


def without_nan(a: np.ndarray) -> np.ndarray:
    return np.nan_to_num(a, nan=0.0, posinf=np.inf, neginf=-np.inf) if a.dtype.kind in "fc" else a


def without_signed_zero(a: np.ndarray) -> np.ndarray:
    return np.where(a == 0, np.abs(a), a).astype(a.dtype)


def shifted(a: np.ndarray) -> np.ndarray:
    return np.roll(a, 1) if a.size else a


def coarse(a: np.ndarray) -> np.ndarray:
    return a.astype(np.float16).astype(a.dtype)


def single(a: np.ndarray) -> np.ndarray:
    narrow = {"f8": np.float32, "c16": np.complex64}.get(a.dtype.str[1:])
    return a.astype(narrow).astype(a.dtype) if narrow else a


def swapped(kernel: Kernel) -> Kernel:
    return lambda a, b, *rest, **kwargs: kernel(b, a, *rest, **kwargs)


def dropped(*names: str) -> Callable[[Kernel], Kernel]:
    """Return the mutation that ignores keywords."""
    return lambda kernel: lambda *args, **kw: kernel(*args, **{k: v for k, v in kw.items() if k not in names})


def fewer_arguments(count: int) -> Callable[[Kernel], Kernel]:
    return lambda kernel: lambda *args, **kwargs: kernel(*args[:count], **kwargs)


def returns_input(kernel: Kernel) -> Kernel:
    def mutant(*args: Any, **kwargs: Any) -> Any:
        out = kernel(*args, **kwargs)
        same = [a for a in args if isinstance(a, np.ndarray) and a.shape == out.shape and a.dtype == out.dtype]
        return same[0] if same else out

    return mutant


def writes_input(kernel: Kernel) -> Kernel:
    def mutant(*args: Any, **kwargs: Any) -> Any:
        out = kernel(*args, **kwargs)
        out = out.copy() if isinstance(out, np.ndarray) else out
        first = next(a for a in args if isinstance(a, np.ndarray))
        if first.size:
            first[...] = next_up(first)
        return out

    return mutant


def clobbers_input(kernel: Kernel) -> Kernel:
    """Return a kernel that changes an argument before it computes, so its values are wrong, too."""

    def mutant(*args: Any, **kwargs: Any) -> Any:
        first = next(a for a in args if isinstance(a, np.ndarray))
        if first.size:
            first[...] = next_up(first)
        return kernel(*args, **kwargs)

    return mutant


def does_not_write(kernel: Kernel) -> Kernel:
    """Return a kernel that computes in place on a copy."""
    return lambda first, *args, **kwargs: kernel(first.copy(), *args, **kwargs)


def lists_not_written(kernel: Kernel) -> Kernel:
    return lambda first, *args, **kwargs: kernel([a.copy() for a in first], *args, **kwargs)


def out_not_written(kernel: Kernel) -> Kernel:
    return lambda *args, out, **kwargs: kernel(*args, out=out.copy(), **kwargs)


def takes_overlaps(kernel: Kernel) -> Kernel:
    """Return a kernel that writes to an ``out`` whose elements share memory; torch refuses such an ``out``."""

    def mutant(*args: Any, out: np.ndarray, **kwargs: Any) -> Any:
        try:
            return kernel(*args, out=out, **kwargs)
        except RuntimeError as e:
            if "single memory location" not in str(e):
                raise
            out[...] = kernel(*args, out=np.empty(out.shape, out.dtype), **kwargs)
            return out

    return mutant


def always_raises(error: type[Exception], text: str) -> Callable[[Kernel], Kernel]:
    def mutation(kernel: Kernel) -> Kernel:
        def mutant(*args: Any, **kwargs: Any) -> Any:
            raise error(text)

        return mutant

    return mutation


def raises_as(change: Callable[[Exception], Exception]) -> Callable[[Kernel], Kernel]:
    def mutation(kernel: Kernel) -> Kernel:
        def mutant(*args: Any, **kwargs: Any) -> Any:
            try:
                return kernel(*args, **kwargs)
            except Exception as e:
                raise change(e) from None

        return mutant

    return mutation


def never_raises(kernel: Kernel) -> Kernel:
    def mutant(*args: Any, **kwargs: Any) -> Any:
        try:
            return kernel(*args, **kwargs)
        except Exception:
            return np.zeros(())

    return mutant


def draws_more(kernel: Kernel) -> Kernel:
    def mutant(*args: Any, **kwargs: Any) -> Any:
        import torchnp

        out = kernel(*args, **kwargs)
        torchnp.table["aten::rand"]([1])
        return out

    return mutant


def dies(kernel: Kernel) -> Kernel:
    return lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGSEGV)


def hangs(kernel: Kernel) -> Kernel:
    return lambda *args, **kwargs: time.sleep(3600)


MUTATIONS: dict[str, tuple[Callable[[Kernel], Kernel], str]] = {
    "result-dtype": (on_arrays(wider), "wrong-dtype"),
    "scalar-result": (on_arrays(lambda a: a[()]), "wrong-dtype"),
    "extra-dimension": (on_arrays(lambda a: a[None]), "wrong-shape"),
    "one-tuple": (lambda kernel: lambda *a, **k: (kernel(*a, **k),), "wrong-shape"),
    "no-result": (lambda kernel: lambda *a, **k: None, "wrong-shape"),
    "one-ulp": (on_arrays(next_up), "wrong-value"),
    "off-by-one": (on_arrays(shifted), "wrong-value"),
    "nan-dropped": (on_arrays(without_nan), "wrong-value"),
    "zero-sign-lost": (on_arrays(without_signed_zero), "wrong-value"),
    "half-precision": (on_arrays(coarse), "wrong-value"),
    "single-precision": (on_arrays(single), "wrong-value"),
    "arguments-swapped": (swapped, "wrong-value"),
    "view-copied": (on_arrays(np.copy), "wrong-alias"),
    "made-row-major": (on_arrays(np.ascontiguousarray), "wrong-strides"),
    "made-column-major": (on_arrays(lambda a: np.asfortranarray(a)), "wrong-strides"),
    "input-returned": (returns_input, "wrong-alias"),
    "input-written": (writes_input, "wrong-alias"),
    "input-clobbered": (clobbers_input, "wrong-alias"),
    "not-written": (does_not_write, "wrong-alias"),
    "out-not-written": (out_not_written, "wrong-alias"),
    "lists-not-written": (lists_not_written, "wrong-value"),
    "out-not-resized": (out_not_written, "wrong-shape"),
    "overlaps-taken": (takes_overlaps, "no-error"),
    "alpha-ignored": (dropped("alpha"), "wrong-value"),
    "keepdim-ignored": (dropped("keepdim"), "wrong-shape"),
    "correction-ignored": (dropped("correction"), "wrong-value"),
    "keepdim-argument-ignored": (fewer_arguments(2), "wrong-shape"),
    "second-argument-ignored": (fewer_arguments(1), "wrong-value"),
    "refuses": (always_raises(RuntimeError, "not supported"), "spurious-error"),
    "absent-by-exception": (always_raises(NotImplementedError, "not implemented"), "spurious-error"),
    "refuses-otherwise": (always_raises(NotImplementedError, "not implemented"), "wrong-error"),
    "error-class": (raises_as(lambda e: ValueError(str(e))), "wrong-error"),
    "error-words": (raises_as(lambda e: type(e)(f"bad input: {e}")), "wrong-error"),
    "accepts": (never_raises, "no-error"),
    "draws-more": (draws_more, "wrong-value"),
    "dies": (dies, "crash"),
    "hangs": (hangs, "timeout"),
}


class Mutated(Mapping[str, Kernel]):
    """A table in which one row is replaced by a mutant."""

    def __init__(self, table: Mapping[str, Kernel], op: str, mutation: str) -> None:
        self.table, self.op = table, op
        self.kernel = MUTATIONS[mutation][0](table[op])

    def __getitem__(self, name: str) -> Kernel:
        return self.kernel if name == self.op else self.table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def __contains__(self, name: object) -> bool:
        return name in self.table
