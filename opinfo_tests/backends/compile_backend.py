"""torch.compile as a backend: compiles each call separately, with ``eager``, ``aot_eager``, ``inductor`` or another."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from ..case import Case
from .backend import Seen
from .torch_backend import TorchDevice, overload_of

_INNER = re.compile(r"\bgot (\w+)\((.*)\)\s*$", re.MULTILINE)
NOT_COMPILED = "torch's compiler runs the operator itself"
_NUMBERED = re.compile(r"<eval_with_key>\.\d+")  # dynamo numbers its compiled functions
REFERENCE = "aot_eager"  # torch's own kernels, run behind the part of the compiler stack that all compilers share
_RESET = 500  # calls between full resets of dynamo, which limit memory but are slow


class Compiled(TorchDevice):
    """A ``torch.compile`` backend on the CPU.

    Every call is compiled anew for its own shapes, to test the compiler and not its cache. Random numbers are torch's
    own (inductor's ``fallback_random``), so they can be compared. torch's compiler stack itself may skip a check of
    an operator or raise its own errors, with any compiler; `REFERENCE` shows these effects. Calls that dynamo runs
    itself without calling a compiler are counted separately, as refused.
    """

    strides = False  # for results that are not written arguments, a compiler chooses the strides

    def __init__(self, compiler: str | Callable[..., Any], name: str = "") -> None:
        super().__init__("cpu")
        self.compiler = compiler
        self.calls, self.reached = 0, False
        self.name = name or f"compile-{compiler if isinstance(compiler, str) else compiler.__name__}"

    def execute(self, case: Case) -> Seen:
        self.reached = False
        seen = super().execute(case)
        if not self.reached and not seen.error:
            seen.error, seen.refused = (NOT_COMPILED, ""), NOT_COMPILED
        return seen

    def _compiler(self, module: Any, example_inputs: Any, **options: Any) -> Any:
        self.reached = True
        compiler = self.compiler
        return (torch._dynamo.lookup_backend(compiler) if isinstance(compiler, str) else compiler)(
            module, example_inputs, **options
        )

    def reference(self, case: Case) -> Seen | None:
        return None if self.compiler == REFERENCE else Compiled(REFERENCE).execute(case)

    def run(self, op: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        overload = overload_of(op)

        def call(*a: Any, **k: Any) -> Any:
            return overload(*a, **k)

        # Reset only the cache of ``call``: all calls have this one code object, and dynamo stops compiling a code
        # object after a few cache entries.
        torch._dynamo.reset_code(call.__code__)
        self.calls += 1
        if self.calls % _RESET == 0:
            torch._dynamo.reset()
        with ExitStack() as stack:
            if self.compiler == "inductor":
                import torch._inductor.config as inductor

                stack.enter_context(inductor.patch(fallback_random=True, compile_threads=1))
            try:
                return torch.compile(call, backend=self._compiler, dynamic=False)(*args, **kwargs)
            except Exception as e:
                raise unwrapped(e) from e


def unwrapped(e: Exception) -> Exception:
    """Return the operator's own error; while tracing, dynamo wraps it in another error."""
    inner = getattr(e, "inner_exception", None)
    if isinstance(inner, Exception):
        return inner
    if type(e).__module__.startswith("torch._dynamo"):
        found = _INNER.search(str(e))
        if found:
            try:
                words = str(ast.literal_eval(found[2]))
            except (ValueError, SyntaxError):
                words = found[2]
            return type(found[1], (Exception,), {})(words)
        return type(type(e).__name__, (Exception,), {})(_NUMBERED.sub("<eval_with_key>", str(e)))
    return e


def compile(compiler: str | Callable[..., Any]) -> Compiled:
    """Return the backend that runs each overload through ``torch.compile(..., backend=compiler)``.

    Parameters
    ----------
    compiler : str or callable
        A name that torch knows (``"eager"``, ``"aot_eager"``, ``"inductor"``, or one registered by another package), or a
        function that takes a graph module and example inputs.

    Returns
    -------
    Compiled
        A `Backend` that compiles each call separately, for its own shapes, on the CPU.

    Raises
    ------
    ValueError
        torch knows no compiler of this name.
    """
    import torch._dynamo

    known = torch._dynamo.list_backends(exclude_tags=())
    if isinstance(compiler, str) and compiler not in known:
        raise ValueError(f"torch.compile has no backend {compiler!r}: {', '.join(sorted(known))}")
    for name in ("torch", "torch._subclasses.fake_tensor", "torch._dynamo", "torch._functorch"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # errors are judged, not logged
    return Compiled(compiler)
