"""An engine of `torchnp.engine` as a backend: calls each declared overload on handles, and compares the gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np
import torch

from torchnp.engine import BaseHandleTensor, Engine, MissingOperator
from torchnp.engine.tensor.overload_info import name_of
from torchnp.rpc.exceptions import RPCError

from ..case import Case, Named, leaves
from .backend import Backend, Seen, error_of
from .torch_backend import TorchDevice, dtype_of_number, gives_dtype, overload_of, thawed, to_array

# Gradients are compared only in these dtypes, whose rounding errors are far below the tolerances, and only for values
# up to a limit: where values overflow differs between torch's fused backward operators and an engine's separate ones.
GRADIENT_DTYPES = (torch.float32, torch.float64)
LARGEST = 1e3


class EngineBackend(Backend):
    """Runs calls on an engine's handles. It claims the engine's ``ops`` and ``dtypes``.

    If the engine declares a tolerance, results within it pass. If a call passes and has a gradient, torch's autograd
    also computes the gradient on handles; a gradient that differs from torch's is an error of the class GradientError.
    """

    in_this_process = False

    def __init__(self, engine: Engine) -> None:
        self.engine, self.name = engine, engine.name.replace(" ", "-")
        self.ops = frozenset(map(name_of, engine.ops))
        self.dtypes = None if engine.dtypes is None else frozenset(engine.dtypes)

    def put(self, a: np.ndarray) -> Any:
        return self.engine.send(tensor_of(a), requires_grad=False)

    def get(self, x: Any) -> Any:
        return to_array(x.publish() if isinstance(x, BaseHandleTensor) else x) if isinstance(x, torch.Tensor) else x

    def named(self, leaf: Named) -> Any:
        return TorchDevice().named(leaf)

    def run(self, op: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        with torch.no_grad():
            out = overload_of(op)(*args, **kwargs)
        return dtype_of_number(out) if gives_dtype(op) else out

    def seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    def set_default_dtype(self, name: str) -> None:
        torch.set_default_dtype(getattr(torch, name))

    def exempt(self, case: Case) -> str:
        return super().exempt(case) if case.arrays() else "without a tensor nothing comes to an engine"

    def fitted(self, case: Case) -> Case:
        """Return the case with its numbers rounded to multiples of the engine's resolution."""
        steps = self.engine.resolution
        if not any(a.dtype in steps for a in case.arrays()):
            return case
        buffers = case.fresh_buffers()
        for array in case.arrays():
            if array.dtype in steps and array.size:
                values, step = array.on(buffers), steps[array.dtype]
                with np.errstate(invalid="ignore"):
                    values[...] = np.rint(values.astype(np.float64) / step) * step
        if all(map(np.array_equal, buffers, case.buffers)):
            return case
        return replace(case, buffers=buffers, digest="")

    def out_of_range(self, case: Case, want: Callable[[], Seen]) -> str:
        """Return why the call is not judged: a value is infinite, nan or larger than the engine's largest number."""
        if not self.engine.largest:
            return ""
        outside = lambda values: any(not self._in_range(x) for x in values)
        if outside([*(a.on(case.buffers) for a in case.arrays()), *leaves((case.args, case.kwargs))]):
            return "an argument is out of the engine's range"
        seen = want()
        return "a result is out of the engine's range" if outside([*seen.results, *seen.after]) else ""

    def _in_range(self, x: Any) -> bool:
        if isinstance(x, float):
            return not isfinite(x) or abs(x) <= max(self.engine.largest.values())  # bounds such as clamp's are infinite
        if not isinstance(x, np.ndarray) or x.dtype.name not in self.engine.largest:
            return True
        with np.errstate(invalid="ignore"):
            return bool((np.abs(x) <= self.engine.largest[x.dtype.name]).all())

    def refuses(self, error: Exception) -> str:
        return error.reason if isinstance(error, RPCError) else ""

    def tolerates(self, case: Case, want: Seen, mine: Seen) -> bool:
        """Return whether results that differ from torch's are within the tolerances that the engine declares."""
        pairs = list(zip(want.results, mine.results, strict=True))
        return bool(self.engine.tolerances) and all(self._near(a, b) for a, b in pairs)

    def _near(self, want: Any, got: Any) -> bool:
        if not isinstance(want, np.ndarray):
            return want is got or want == got
        rtol, atol = self.engine.tolerances.get(want.dtype.name, (0.0, 0.0))
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        with np.errstate(invalid="ignore"):
            return bool(np.allclose(got.astype(wide), want.astype(wide), rtol, atol, equal_nan=True))

    def _execute(self, case: Case) -> Seen:
        seen = super()._execute(case)
        if seen.error is None and not case.draws:
            try:
                seen.error = self._other_gradient(case, seen)
            except MissingOperator as e:
                seen.error, seen.refused = error_of(e), f"its gradient needs {e.op}"
            except RPCError as e:
                seen.error, seen.refused = error_of(e), e.reason
            except Exception as e:  # as in a forward call, an operator that raises is a failure of the engine
                seen.error = error_of(e)
        return seen

    def _other_gradient(self, case: Case, seen: Seen) -> tuple[str, str] | None:
        """Compare the gradients of a call with torch's; return an error if they differ."""
        if not all(map(moderate, (*seen.results, *seen.after))):
            return None
        plain = differentiable(case, lambda t: t)
        wanted = gradients(case, plain)
        if not wanted:
            return None
        found = gradients(
            case, differentiable(case, lambda t: self.engine.send(t.detach(), requires_grad=t.requires_grad))
        )
        for i, (a, b) in enumerate(zip(wanted, found, strict=True)):
            if (a is None) != (b is None):
                return (
                    "GradientError",
                    f"tensor {i} has {'no' if b is None else 'a'} gradient, in torch {'none' if a is None else 'one'}",
                )
            if a is None or b is None:
                continue
            values = b.publish() if isinstance(b, BaseHandleTensor) else b
            rtol, atol = self.engine.tolerances.get(str(a.dtype).removeprefix("torch."), (None, None))
            try:
                torch.testing.assert_close(values, a, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as e:
                return "GradientError", f"of tensor {i}: {e}"
        return None


def tensor_of(a: np.ndarray) -> torch.Tensor:
    """Return a tensor with an array's values, dtype and strides, in new memory."""
    from torchnp.interop import to_torch

    return to_torch(a).clone()


def moderate(x: Any) -> bool:
    """Return whether a value is finite and small."""
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fc":
        return True
    with np.errstate(invalid="ignore"):
        return bool((np.abs(x) <= LARGEST).all())


def differentiable(case: Case, made: Callable[[torch.Tensor], Any]) -> tuple[list[Any], tuple, dict[str, Any]]:
    """Return the tensors that may have gradients, and the arguments of the call, which contain these tensors."""
    given: list[Any] = []

    def change(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)(map(change, x))
        if not isinstance(x, torch.Tensor):
            return x
        x = x.detach().clone().requires_grad_(x.dtype in GRADIENT_DTYPES)
        x = made(x)
        if x.requires_grad:
            given.append(x)
        return x

    args, kwargs = thawed(case)
    args, kwargs = change(args), {k: change(v) for k, v in kwargs.items()}
    return given, args, kwargs


def gradients(case: Case, call: tuple[list[Any], tuple, dict[str, Any]]) -> list[Any]:
    """Return the gradients of a weighted sum of a call's results by its arguments; empty if there are none."""
    given, args, kwargs = call
    if not given:
        return []
    try:
        out = overload_of(case.op)(*args, **kwargs)
    except RuntimeError:
        if any(isinstance(x, BaseHandleTensor) for x in given):
            raise
        return []  # torch refuses to write to a leaf
    outs = [x for x in leaves(out) if isinstance(x, torch.Tensor) and x.requires_grad and x.dtype in GRADIENT_DTYPES]
    if not outs:
        return []
    weights = [torch.linspace(0.5, 1.5, x.numel(), dtype=x.dtype).reshape(x.shape) for x in outs]
    if isinstance(given[0], BaseHandleTensor):
        weights = given[0]._session.send(weights)
    try:
        return list(torch.autograd.grad(outs, given, weights, allow_unused=True))
    except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError):
        if isinstance(given[0], BaseHandleTensor):
            raise
        return []  # torch has no gradient for these arguments


def engine(value: Any) -> EngineBackend:
    """Return the backend of an engine, its class, or a function that returns one.

    Raises
    ------
    ValueError
        It is none of these.
    """
    made = value if isinstance(value, Engine) else value() if callable(value) else None
    if not isinstance(made, Engine):
        raise ValueError(f"not an Engine of torchnp.engine, nor a function that returns one: {value!r}")
    return EngineBackend(made)
