"""Caches of a session's process whose size in bytes is limited."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from torchnp.rpc.server.privacy.row_labels import Rows

CACHE_BYTES = 8 << 20

Value = TypeVar("Value")


class Room:
    """The remaining bytes of a cache that never evicts."""

    def __init__(self, nbytes: int) -> None:
        self.left = nbytes

    def take(self, nbytes: int) -> bool:
        """Take ``nbytes`` if that many are left, and return True; otherwise return False."""
        if nbytes > self.left:
            return False
        self.left -= nbytes
        return True


class BoundedCache(Generic[Value]):
    """Cache with a limit in bytes. When a new entry would exceed it, all entries are evicted.

    Parameters
    ----------
    most : int
        Approximate limit in bytes on keys and values. An entry that needs more than a quarter of it is not stored.
    """

    def __init__(self, most: int = CACHE_BYTES) -> None:
        self.most, self.nbytes = most, 0
        self._values: dict[Any, Value] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Any) -> Value | None:
        """Return the value of a key, or None."""
        return self._values.get(key)

    def keep(self, key: Any, value: Value) -> None:
        """Store a value under a new key."""
        nbytes = size_of(key) + size_of(value)
        if nbytes > self.most // 4:
            return
        if self.nbytes + nbytes > self.most:
            self._values.clear()
            self.nbytes = 0
        self._values[key] = value
        self.nbytes += nbytes


def size_of(value: Any) -> int:
    """Return the approximate memory of a value in bytes; it may be a nested tuple or list, a text, label or error."""
    if isinstance(value, (tuple, list, frozenset)):
        return 80 + sum(8 + size_of(x) for x in value)
    if isinstance(value, (str, bytes)):
        return 64 + len(value)
    if isinstance(value, Rows):
        return 160 + len(value.dataset) + len(value.order)
    if isinstance(value, BaseException):
        return 256 + size_of(value.args)
    return 64
