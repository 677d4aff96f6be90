"""Handles on a server's tensors: their operators are sent to the server, and `publish` fetches their values."""

from __future__ import annotations

from typing import Any

from torchnp.engine.tensor.call_sites import caller
from torchnp.engine.tensor.handles import BaseHandleTensor
from torchnp.engine.tensor.overload_info import OverloadInfo
from torchnp.engine.tensor.shape_inference import InferredResults
from torchnp.rpc.client.tensor.publish import Published
from torchnp.rpc.client.tensor.remote_refs import RemoteObject
from torchnp.rpc.exceptions import HandleError

FRAMES = 4  # known frames inside torchnp: `caller`, `_emit`, and at least two of `torchnp.engine.tensor.handles`


class RPCTensor(Published, BaseHandleTensor):  # type: ignore[misc]  # the options of publish have names
    """A handle on a server's tensor; `publish` fetches its values."""

    _object: RemoteObject

    @classmethod
    def _emit(
        cls,
        session: Any,
        plan: OverloadInfo,
        args: list,
        kwargs: dict[str, Any],
        outcome: InferredResults,
        weight: int,
        key: int | None,
    ) -> list[Any]:
        if outcome.overlapping:
            raise HandleError(
                f"{plan.name}: elements of the result would share memory, and the server keeps no such tensors: use other "
                "strides, or expand() or as_strided() of a tensor on the server",
                "elements share memory",
            )
        index = session.index[plan.name]
        session.calls[index] += 1
        return session.channel.call(
            index, outcome.count, args, kwargs, outcome.expected, caller(FRAMES), weight, key, make=session._object
        )
