"""Uploads of a session by content: what was sent before is copied on the server."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

SMALLEST = 1 << 12  # bytes; a smaller tensor takes less time than its digest and the copying operator


class UploadCache:
    """Handles on tensors as they were sent, which nobody else has, the latest last.

    They are objects of the session: the server's quota counts them, and no other session sees them.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._nbytes, self._lock = 0, threading.Lock()

    @staticmethod
    def key(dtype: str, shape: Any, strides: Any, raw: memoryview) -> Hashable:
        """The key of a tensor: what it is, and the digest of its bytes."""
        return dtype, tuple(shape), tuple(strides), hashlib.blake2b(raw, digest_size=32).digest()

    def get(self, key: Hashable) -> Any:
        """The handle that was kept, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return None if found is None else found[0]

    def keep(self, key: Hashable, handle: Any, nbytes: int, most: int) -> None:
        """Keep a handle, and drop the oldest ones beyond ``most`` bytes."""
        dropped = []  # their objects are deleted outside the lock
        with self._lock:
            if key not in self._kept:
                self._kept[key] = handle, nbytes
                self._nbytes += nbytes
            while self._nbytes > most:
                _, old = self._kept.popitem(last=False)
                self._nbytes -= old[1]
                dropped.append(old)

    def clear(self) -> None:
        """Drop all handles."""
        with self._lock:
            kept, self._kept, self._nbytes = self._kept, OrderedDict(), 0
        kept.clear()
