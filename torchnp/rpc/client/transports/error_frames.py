"""Conversion of ERR frames to exceptions that name the place in the client's code."""

from __future__ import annotations

import sys
from typing import Any

from torchnp.core.code_location import Where, location
from torchnp.rpc import wire
from torchnp.rpc.exceptions import INFRASTRUCTURE, KERNEL_ERRORS, ProtocolError, RemoteOpError, RPCError


def _class_of(err: wire.Err) -> type[RemoteOpError]:
    if err.cls == "LinAlgError" and "torch" in sys.modules:  # a client without torch lacks the class
        from torchnp.rpc.client.transports.linalg_error import RemoteLinAlgError

        return RemoteLinAlgError
    return KERNEL_ERRORS.get(err.cls, KERNEL_ERRORS["RuntimeError"])


def as_exception(err: wire.Err, where: Where, server: str, more: int = 0) -> Exception:
    """Return the exception for an ERR frame; ``more`` is the number of other, independent failures."""
    place = location(where)
    also = f"; {more} more failed on their own" if more else ""
    if err.kind == "op":
        error: Any = _class_of(err)(f"{err.text}\n  {err.op}, issued at {place}, failed on {server}{also}")
        error.op, error.seq, error.location, error.remote_text = err.op, err.seq, place, err.text
        return error
    issued = f"\n  {err.op}, issued at {place}" if err.seq >= 0 else ""
    return INFRASTRUCTURE.get(err.kind, ProtocolError)(f"{err.text} (server: {server}){issued}{also}")


def last_word(err: wire.Err, server: str) -> RPCError:
    """Return the exception for an ERR frame that ends the session."""
    return INFRASTRUCTURE.get(err.kind, ProtocolError)(f"{err.text} (server: {server})")
