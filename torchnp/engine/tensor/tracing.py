"""Support for handles in tracers: make_fx (also in torch.func.linearize), torch.fx, torch.jit.trace, torch.compile."""

from __future__ import annotations

from typing import Any

import torch

from torchnp.interop._private import is_recorded, leave_to_python, take_for_recording
from torchnp.rpc.exceptions import HandleError

NOT_RECORDED = "what a recording cannot hold"


def recorded(cls: type, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Register the handle class with a tracer that declined an operator because it did not know the class, and retry.

    Otherwise the trace would contain the operator's result in this run as a constant.
    """
    if not take_for_recording(cls):
        raise HandleError(
            f"{func.name()} on a handle cannot be recorded by this torch {torch.__version__}: call the function on handles "
            "as it is, and take torch.func.jvp in place of torch.func.linearize",
            NOT_RECORDED,
        )
    return func(*args, **kwargs)


def refuse_recording(what: str) -> None:
    """Raise HandleError under a tracer, because the trace would keep a transferred value as a constant."""
    if is_recorded() or torch.jit.is_tracing():
        raise HandleError(
            f"{what} in a function that is recorded (by make_fx, torch.func.linearize or torch.jit.trace) happens this once, "
            "and what it gives would be a constant of the recording: do it outside, and pass handles as arguments",
            NOT_RECORDED,
        )


def leave_to_torch_compile(cls: type) -> None:
    """Keep torch.compile out of a class's dispatch: operators on handles run uncompiled, between compiled graphs."""
    leave_to_python(vars(cls)["__torch_dispatch__"].__func__)
