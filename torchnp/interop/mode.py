"""`NumpyMode`: run torch programs with a NumPy kernel for every operator, on the tensors' own memory."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, NoReturn

import torch

import torchnp
from torchnp import dtypes
from torchnp.core.errors import MissingKernelError
from torchnp.interop import convert, kernel_runner, ops_left_to_torch
from torchnp.interop._private import (
    TorchDispatchMode,
    constructors,
    decomposed,
    is_composite,
    is_python,
    is_traced,
)
from torchnp.interop.convert import NUMPY_DTYPE, as_torchs
from torchnp.interop.crosscheck import CrossCheckError, compare_with_torch
from torchnp.interop.fused_flags import FASTPATH, FLASH, MKLDNN
from torchnp.interop.rng_sync import is_random, keep_default, on_torchs_stream
from torchnp.interop.rnn_workspace import KEEPERS, Workspace, keeping
from torchnp.kernels.lu import LinAlgError

# Flags of fused code paths, and the overload that each path calls.
_ROUTES = (
    (MKLDNN, "aten::mkldnn_rnn_layer"),
    (FASTPATH, "aten::_nested_tensor_from_mask"),
    (FLASH, "aten::_scaled_dot_product_flash_attention_for_cpu"),
)
_RUNNER = kernel_runner.Runner(convert)
_CPU = torch.DispatchKeySet(torch.DispatchKey.CPU)
_PASSED_NAMESPACES = frozenset({"profiler"})  # ops of these namespaces neither read nor create tensor values


class Step:
    """The function with which the mode runs one overload, and the number of calls."""

    __slots__ = ("calls", "name", "run", "status")

    def __init__(self, name: str, status: str, run: kernel_runner.Run) -> None:
        self.name, self.status, self.run, self.calls = name, status, run, 0


class NumpyMode(TorchDispatchMode):
    """Compute each aten op, in forward, backward and optimizers, by `torchnp.table` instead of torch.

    Kernels work on the tensors' own memory. Views are views on their base's storage, and in-place and ``out=`` ops
    return the tensors passed to them, so autograd, version counters and aliasing behave as in torch. Random ops
    continue torch's own generators: ``torch.manual_seed`` has its usual effect, and the generators end where torch
    would have left them. While the mode is on, it uses torchnp's own default generator for this, so seeding that
    generator has no effect.

    These are not computed by a kernel:

    - Ops on storages and bits, which arrays do not have (``resize_``, ``set_``, the conjugate and negative bits,
      ``lift_fresh``, ...): torch runs them, and `summary` lists them as ``bookkeeping``.
    - Ops on meta tensors, which have no values: torch runs them (``meta``).
    - Ops that take or return sparse COO tensors, such as the gradients of ``nn.Embedding(sparse=True)``: torch runs
      them (``sparse``).
    - Composite ops that reach the mode (in inference mode) and have no kernel: each is decomposed into the ops by which
      torch defines it. The same holds for Python functions of ``torch.library.custom_op`` and
      ``torch.library.Library``.
    - Ops under a tracer or on fake tensors (``make_fx``, ``torch.export``): they are passed on to the tracer
      (``traced``).
    - Ops on tensor subclasses that handle their own operators: these take precedence.

    Other sparse, quantized, nested and mkldnn tensors, other devices than the CPU, and ops without a kernel raise
    `MissingKernelError`. While the mode is on, torchnp uses torch's default dtype, and torch does not use the fused
    paths (oneDNN, transformer fast path, flash attention) for which the table has no kernel; these settings hold for
    the whole process, not per thread. If ``resize_`` makes a kernel's result larger than its storage, the tensor moves
    to a new storage, and other tensors stay on the old one.

    Parameters
    ----------
    crosscheck : bool
        Also run torch on copies of each op's inputs and raise `CrossCheckError` at the first op that disagrees in
        dtype, shape, values (within ``torch.testing``'s default tolerances plus the rounding error of the op's sums),
        aliasing, or written arguments.
    fallback : bool
        Let torch compute ops without a kernel, and count them in `fallbacks`.
    table : mapping, optional
        Kernels by full overload name, used instead of `torchnp.table`; plain functions of arrays suffice.

    Attributes
    ----------
    fallbacks : collections.Counter
        Number of calls, by overload, that torch computed because there was no kernel.
    ties : collections.Counter
        Number of calls, by overload, in which kernel and torch picked different positions among equal values (with
        ``crosscheck``). This is not a disagreement.

    Examples
    --------
    >>> with NumpyMode() as mode:
    ...     loss = model(x).sum()
    ...     loss.backward()
    >>> mode.summary()
    """

    def __init__(
        self,
        crosscheck: bool = False,
        fallback: bool = False,
        table: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        super().__init__()
        self.crosscheck, self.fallback = crosscheck, fallback
        self.table: Mapping[str, Callable[..., Any]] = torchnp.table if table is None else table
        self.fallbacks: Counter[str] = Counter()
        self.ties: Counter[str] = Counter()
        self._meta: Counter[str] = Counter()
        self._traced: Counter[str] = Counter()
        self._sparse: Counter[str] = Counter()
        self._steps: dict[Any, Step] = {}
        self._checked = 0  # ops compared with torch so far
        self._default_dtype: torch.dtype | None = None
        self._leave: list[ExitStack] = []

    # ------------------------------------------------------------ entering and leaving

    def __enter__(self) -> NumpyMode:
        with ExitStack() as stack:
            stack.callback(self._prepare())
            stack.enter_context(constructors(NumpyMode))
            self._leave.append(stack.pop_all())
        return super().__enter__()

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._leave.pop().close()

    def _prepare(self) -> Callable[[], None]:
        restore_generator = keep_default()
        numpy_default, self._default_dtype = dtypes.get_default_dtype(), None
        # the kernel and torch each have a workspace of their own, and the two could not be compared
        held = {"aten::mkldnn_rnn_layer"} if self.crosscheck else set()
        closed = [flag for flag, name in _ROUTES if (name in held or name not in self.table) and flag.read()]
        for flag in closed:
            flag.write(False)

        def restore() -> None:
            for flag in closed:
                flag.write(True)
            dtypes.set_default_dtype(numpy_default)
            self._default_dtype = None
            restore_generator()

        return restore

    # ------------------------------------------------------------ dispatch

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if is_traced():
            self._traced[func.name()] += 1
            return func(*args, **(kwargs or {}))
        for kind in types:
            if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ and kind is not Workspace:
                return NotImplemented
        default = torch.get_default_dtype()
        if default is not self._default_dtype:
            self._default_dtype = default
            dtypes.set_default_dtype(NUMPY_DTYPE[default])
        step = self._steps.get(func) or self._plan(func)
        try:
            result = step.run(args, kwargs or {})
        except kernel_runner.OnMeta:
            self._meta[step.name] += 1
            return func(*args, **(kwargs or {}))
        except kernel_runner.OnSparse:
            self._sparse[step.name] += 1
            return func(*args, **(kwargs or {}))
        except kernel_runner.Foreign as reason:
            if not self.fallback:
                raise MissingKernelError(f"{step.name}: NumpyMode computes on dense CPU tensors; {reason}") from None
            self.fallbacks[step.name] += 1
            return func(*args, **(kwargs or {}))
        except (LinAlgError, MemoryError) as error:
            raise as_torchs(error) from None
        step.calls += 1
        return result

    def _plan(self, func: Any) -> Step:
        name = func.name()
        kernel = self.table.get(name)
        if name in ops_left_to_torch.BOOKKEEPING or func.namespace in _PASSED_NAMESPACES:
            step = Step(name, "bookkeeping", ops_left_to_torch.bookkeeping(func))
        elif kernel is not None:
            run = ops_left_to_torch.sparse_gradients(func, _RUNNER.run_of(func, kernel), _to_torch)
            run = ops_left_to_torch.deterministic(func, run)
            if is_random(func):
                run = on_torchs_stream(run)
            if name in KEEPERS:
                run = keeping(func, run, self.table)
            if self.crosscheck:
                run = self._compared(func, run)
            step = Step(name, getattr(kernel, "status", "kernel"), run)
        elif func.namespace in ("aten", "prims") and is_composite(func):
            step = Step(name, "taken apart", self._take_apart(decomposed(func)))
        elif func.namespace not in ("aten", "prims") and is_python(name):
            step = Step(name, "taken apart", self._take_apart(partial(func.redispatch, _CPU)))
        else:
            step = Step(name, "missing", self._without_kernel(func))
        self._steps[func] = step
        return step

    def _compared(self, func: Any, run: kernel_runner.Run) -> kernel_runner.Run:
        def compared(args: tuple, kwargs: dict[str, Any]) -> Any:
            self._checked += 1
            return compare_with_torch(func, run, args, kwargs, self._checked, self.ties)

        return compared

    def _take_apart(self, parts: Callable[..., Any]) -> kernel_runner.Run:
        def run(args: tuple, kwargs: dict[str, Any]) -> Any:
            with self:
                return parts(*args, **kwargs)

        return run

    def _without_kernel(self, func: Any) -> kernel_runner.Run:
        name = func.name()

        def run(args: tuple, kwargs: dict[str, Any]) -> Any:
            if _any_meta(args, kwargs):
                raise kernel_runner.OnMeta
            if any(isinstance(x, torch.Tensor) and x.layout is torch.sparse_coo for x in (*args, *kwargs.values())):
                raise kernel_runner.OnSparse
            if not self.fallback:
                why = getattr(self.table, "reason", {}.get)(name)
                near = f": it {why}" if why else f". Nearest rows: {', '.join(self._close_names(name)) or 'none'}"
                raise MissingKernelError(
                    f"{name}: the table has no kernel for this op{near}. NumpyMode(fallback=True) lets torch compute it."
                )
            self.fallbacks[name] += 1
            return func(*args, **kwargs)

        return run

    def _close_names(self, name: str) -> list[str]:
        find = getattr(self.table, "close_names", None)
        return find(name) if find else difflib.get_close_matches(name, self.table, n=5)

    # ------------------------------------------------------------ what was run

    @property
    def calls(self) -> Counter[str]:
        """Number of calls by overload, over all statuses."""
        return (
            Counter({s.name: s.calls for s in self._steps.values() if s.calls})
            + self._meta
            + self._traced
            + self._sparse
        )

    def summary(self) -> dict[str, dict[str, int]]:
        """Return the number of distinct overloads and of calls, by status.

        The statuses are the table's (``kernel``, ``derived``, ``composite``), and ``bookkeeping``, ``taken apart``
        (decomposed), ``meta``, ``sparse``, ``traced`` and ``fallback``. Statuses that did not occur are omitted.
        """
        found: dict[str, dict[str, int]] = {}
        rows = [(s.status, s.calls) for s in self._steps.values() if s.status != "missing"]
        aside = {"meta": self._meta, "sparse": self._sparse, "traced": self._traced, "fallback": self.fallbacks}
        for status, counted in aside.items():
            rows += [(status, n) for n in counted.values()]
        for status, calls in rows:
            if calls:
                entry = found.setdefault(status, {"overloads": 0, "calls": 0})
                entry["overloads"] += 1
                entry["calls"] += calls
        return found


def _to_torch(args: tuple, kwargs: dict[str, Any]) -> NoReturn:
    raise kernel_runner.OnSparse


def _any_meta(args: tuple, kwargs: dict[str, Any]) -> bool:
    for x in (*args, *kwargs.values()):
        if isinstance(x, (list, tuple)):
            if _any_meta(tuple(x), {}):
                return True
        elif (isinstance(x, torch.Tensor) and x.is_meta) or (isinstance(x, torch.device) and x.type == "meta"):
            return True
    return False


__all__ = ["CrossCheckError", "MissingKernelError", "NumpyMode"]
