"""Stand-in for the workspace of oneDNN's RNN layer: a tensor without memory, which only the table's kernel accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch

import torchnp
from torchnp.interop import convert, kernel_runner
from torchnp.interop._private import OpOverload, forbid_pointer, make_handle, no_torch_function, schema_of

Run = kernel_runner.Run
_FORWARD, _BACKWARD = "aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward"
KEEPERS = frozenset({_FORWARD, f"{_FORWARD}.out", _BACKWARD, f"{_BACKWARD}.out"})
"""Operators that return or take a workspace."""


class Workspace(torch.Tensor):
    """A stand-in for oneDNN's workspace. That is opaque memory, which torch's own gradient reads without a check.

    The stand-in exists only in Python, and can only be passed to the gradient op. For a layer that ran under the mode,
    the table's kernel computes the gradient by running the layer again, even if the mode is off by then.
    """

    __torch_function__ = no_torch_function

    _backward: Run

    @classmethod
    def made(cls, backward: Run) -> Any:
        """Return a workspace.

        ``backward`` takes the arguments of ``mkldnn_rnn_layer_backward`` and returns the gradient.
        """
        workspace = make_handle(cls, (0,), dtype=torch.uint8)
        forbid_pointer(workspace)
        workspace._backward = backward
        return workspace

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = next((x for x in (*args, *(kwargs or {}).values()) if isinstance(x, cls)), None)
        if found is not None and func.name() == _BACKWARD:
            return found._backward(args, kwargs or {})
        if found is not None and func.name() in ("aten::detach", "aten::alias", "aten::clone"):
            return cls.made(found._backward)
        raise RuntimeError(
            f"{func.name()}: the workspace of an LSTM's layer that ran under NumpyMode has no memory, as oneDNN's would: only the "
            "gradient of the layer takes it"
        )

    def untyped_storage(self) -> NoReturn:
        """Raise RuntimeError, because there is no memory."""
        raise RuntimeError("the workspace of an LSTM's layer that ran under NumpyMode has no memory")

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        return "Workspace()"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise RuntimeError("the workspace of an LSTM's layer that ran under NumpyMode cannot be saved or pickled")


def keeping(func: OpOverload, run: Run, table: Mapping[str, Callable[..., Any]]) -> Run:
    """Wrap the run of an op in `KEEPERS` so that it returns a workspace; ``table`` provides the gradient's kernel."""
    if func.name() == _FORWARD:
        gradient = torch.ops.aten.mkldnn_rnn_layer_backward.default
        kernel = table.get(_BACKWARD) or torchnp.table[_BACKWARD]
        backward = keeping(gradient, kernel_runner.Runner(convert).run_of(gradient, kernel), table)

        def forward(args: tuple, kwargs: dict[str, Any]) -> Any:
            *results, _ = run(args, kwargs)
            # torch returns None too if gradients are off.
            return (*results, Workspace.made(backward) if torch.is_grad_enabled() else None)

        return forward
    if func.name() == f"{_FORWARD}.out":

        def into(args: tuple, kwargs: dict[str, Any]) -> Any:
            if torch.is_grad_enabled():
                raise RuntimeError(
                    f"{func.name()}: under NumpyMode there is no workspace that could be written into out3"
                )
            return run(args, kwargs)

        return into
    place = [a.name for a in schema_of(func).arguments].index("workspace")

    def without(args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run the gradient without a workspace, which the kernel does not need."""
        if len(args) > place:
            return run((*args[:place], None, *args[place + 1 :]), kwargs)
        return run(args, {**kwargs, "workspace": None})

    return without
