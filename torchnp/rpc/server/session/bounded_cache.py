"""Caches of a session's process, bounded by bytes."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from torchnp.rpc.server.privacy.row_labels import Rows

CACHE_BYTES = 8 << 20

Value = TypeVar("Value")


class Room:
    """Remaining bytes for a cache that never evicts."""

    def __init__(self, nbytes: int) -> None:
        self.left = nbytes

    def take(self, nbytes: int) -> bool:
        """Take ``nbytes`` if that many are left; returns whether they were."""
        if nbytes > self.left:
            return False
        self.left -= nbytes
        return True


class BoundedCache(Generic[Value]):
    """Cache of values by key with a byte limit; everything is evicted when it would be exceeded.

    Parameters
    ----------
    most : int
        Approximate limit in bytes of keys and values. An entry of more than a quarter of it is not kept.
    """

    def __init__(self, most: int = CACHE_BYTES) -> None:
        self.most, self.nbytes = most, 0
        self._values: dict[Any, Value] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Any) -> Value | None:
        """Value of a key, or None."""
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
    """Approximate bytes of memory of a value: nested tuples and lists, texts, labels or errors."""
    if isinstance(value, (tuple, list, frozenset)):
        return 80 + sum(8 + size_of(x) for x in value)
    if isinstance(value, (str, bytes)):
        return 64 + len(value)
    if isinstance(value, Rows):
        return 160 + len(value.dataset) + len(value.order)
    if isinstance(value, BaseException):
        return 256 + size_of(value.args)
    return 64
