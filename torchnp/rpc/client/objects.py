"""What stands on the client for an object of a server's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchnp.rpc import wire

if TYPE_CHECKING:
    from torchnp.rpc.client.session import Session


class RemoteObject:
    """An object of a server's: it is forgotten there when the last handle to it dies here."""

    __slots__ = ("id", "session", "wire")

    def __init__(self, id_: int, session: Session) -> None:
        # In one step: an interrupt must not leave half an object to the destructor.
        self.id, self.session, self.wire = id_, session, wire.Handle(id_)

    def __del__(self) -> None:
        if hasattr(self, "id"):  # else an interrupt came first
            self.session.channel.forget(self.id)


def ranges_of(ids: list[int]) -> list[tuple[int, int]]:
    """Ids of objects as inclusive ranges."""
    ids.sort()
    ranges: list[tuple[int, int]] = []
    low = high = ids[0]
    for id_ in ids[1:]:
        if id_ == high + 1:
            high = id_
        else:
            ranges.append((low, high))
            low = high = id_
    ranges.append((low, high))
    return ranges
