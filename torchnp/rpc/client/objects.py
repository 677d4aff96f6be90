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
    """Ids of objects as ranges: the ids between the last one and it, and how many it has beside its first."""
    ids.sort()
    ranges: list[tuple[int, int]] = []
    end, low, following = 0, ids[0], ids[0]
    for id_ in ids:
        if id_ != following:
            ranges.append((low - end, following - 1 - low))
            end, low = following, id_
        following = id_ + 1
    ranges.append((low - end, following - 1 - low))
    return ranges
