"""Handles on a server's tensors: their operators are sent to the server, and `publish` fetches their values."""

from __future__ import annotations

from typing import Any

from torchnp.rpc.client.tensor.call_sites import caller
from torchnp.rpc.client.tensor.handles import BaseHandleTensor
from torchnp.rpc.client.tensor.release import Published
from torchnp.rpc.client.tensor.remote_refs import RemoteObject

FRAMES = 4  # known frames inside torchnp: `caller`, `_emit`, and at least two of `torchnp.rpc.client.tensor.handles`


class RPCTensor(Published, BaseHandleTensor):
    """A handle on a server's tensor; `publish` fetches its values."""

    _object: RemoteObject

    @classmethod
    def _emit(
        cls,
        session: Any,
        name: str,
        count: int,
        args: list,
        kwargs: dict[str, Any],
        expected: list,
        weight: int,
        key: int | None,
    ) -> list[Any]:
        index = session.index[name]
        session.calls[index] += 1
        return session.channel.call(
            index, count, args, kwargs, expected, caller(FRAMES), weight, key, make=session._object
        )
