"""Lowering of operator arguments to shape cache keys and wire values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from torchnp.engine.tensor.local_arguments import check_length, check_plain, lowered, number, wrapped_number
from torchnp.engine.tensor.overload_info import OverloadInfo
from torchnp.engine.tensor.shape_inference import spec_of
from torchnp.engine.tensor.unsupported import NoValues
from torchnp.rpc import wire
from torchnp.rpc.exceptions import HandleError

if TYPE_CHECKING:
    from torchnp.engine.tensor.interfaces import EngineProtocol, RemoteRef

_INTEGERS = {int}


def one_session(session: EngineProtocol | None, handle: Any) -> EngineProtocol:
    if session is not None:
        raise HandleError(
            f"handles of two sessions cannot meet: one is of {session.title}, the other of {handle._session.title}; "
            "publish one and send it to the other"
        )
    return handle._session


def lower(
    plan: OverloadInfo, session: EngineProtocol | None, a: Any, loose: bool, place: tuple[list, Any, int | str]
) -> tuple[Any, Any, Any, int]:
    """Return (session, part of the cache key, wire argument, extra bytes) for an argument of an unusual kind.

    ``place`` is the list of plain tensors to send, and the container and key where the argument goes.
    """
    if isinstance(a, NoValues):
        if a._session is not session:
            session = one_session(session, a)
        return session, a._spec, a._object.wire, 0
    if isinstance(a, torch.Tensor):
        wrapped = wrapped_number(a)
        if wrapped is not None:
            return session, type(wrapped), number(wrapped), 0
        check_plain(plan.name, a)
        plain, container, key = place
        plain.append((container, key, a))
        return session, spec_of(a), None, 0
    if isinstance(a, (list, tuple)):
        check_length(plan.name, len(a))
        if not loose and set(map(type, a)) == _INTEGERS:
            return session, tuple(a), wire.listed(list(a)), 9 * len(a)
        parts: list[Any] = []
        values: list[Any] = []
        for i, x in enumerate(a):
            session, part, value, _ = lower(plan, session, x, loose, (place[0], values, i))
            parts.append(part)
            values.append(value)
        return session, tuple(parts), wire.listed(values), 9 * len(values)
    return session, *lowered(plan.name, a, loose), 0


def lower_named(
    plan: OverloadInfo,
    session: EngineProtocol | None,
    kwargs: dict[str, Any],
    key: list,
    sent: dict[str, Any],
    plain: list,
) -> tuple[EngineProtocol | None, int]:
    """Add the keyword arguments to the cache key and to ``sent``; return (session, extra bytes)."""
    weight = 0
    for name, a in kwargs.items():
        session, part, sent[name], more = lower(plan, session, a, name in plan.loose, (plain, sent, name))
        key += (name, part)
        weight += more
    return session, weight


def constants(session: EngineProtocol, plain: list[tuple[Any, int | str, torch.Tensor]]) -> list[RemoteRef]:
    """Upload plain tensors and replace each one with its wire value; return the references."""
    held = [session._constant(tensor) for _, _, tensor in plain]
    for (container, place, _), constant in zip(plain, held, strict=True):
        container[place] = constant.wire
    return held
