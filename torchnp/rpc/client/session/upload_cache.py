"""A session's uploads by content; a tensor that was sent before is copied on the server instead of being sent again."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

SMALLEST = 1 << 12  # bytes; a smaller tensor takes less time than its digest and the copying operator


class UploadCache:
    """Handles on unmodified copies of sent tensors, the latest last; the rest of the program has no such handles.

    The copies are objects of the session: the server's quota counts them, and no other session sees them.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._nbytes, self._lock = 0, threading.Lock()

    @staticmethod
    def key(dtype: str, shape: Any, strides: Any, raw: memoryview) -> Hashable:
        """Return the key of a tensor: its dtype, shape and strides, and the digest of its bytes."""
        return dtype, tuple(shape), tuple(strides), hashlib.blake2b(raw, digest_size=32).digest()

    def get(self, key: Hashable) -> Any:
        """Return the handle that is kept under a key, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return None if found is None else found[0]

    def keep(self, key: Hashable, handle: Any, nbytes: int, most: int) -> None:
        """Keep a handle, and drop the oldest handles until all fit in ``most`` bytes."""
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
