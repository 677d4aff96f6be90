"""Tensors that a client uploads in chunks, into memory that counts for the session's limits."""

from __future__ import annotations

import sys

import numpy as np

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError, QuotaError
from torchnp.rpc.server.session.match_client_strides import shaped
from torchnp.rpc.server.session.object_store import ObjectStore


class Uploads:
    """The current upload of a session; there is at most one."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self._first: wire.Data | None = None
        self._target: np.ndarray | None = None  # None if there is no room; chunks are then read and dropped
        self._problem: Exception | None = None
        self._size = self._done = 0

    @property
    def open(self) -> bool:
        """Whether more chunks of a tensor must follow."""
        return self._first is not None

    def clear(self) -> None:
        """Drop the current upload."""
        self._first = self._target = self._problem = None

    def take(self, chunk: wire.Data) -> bool:
        """Take a chunk; return whether it was the last one, after which the tensor is stored.

        Raises
        ------
        ProtocolError
            The chunk is malformed, or does not continue the chunks before it.
        QuotaError, MemoryError
            It was the last chunk of a tensor for which there is no room.
        """
        if self._first is None:
            self._begin(chunk)
        first = self._first
        assert first is not None
        end = self._done + len(chunk.raw)
        if (
            (chunk.id, chunk.offset) != (first.id, self._done)
            or end > self._size
            or (self._size > self._done and not chunk.raw)
        ):
            raise ProtocolError("the chunks of a tensor do not fit together")
        if self._target is not None:
            self._target[self._done : end] = np.frombuffer(chunk.raw, np.uint8)
        self._done = end
        if end < self._size:
            return False
        target, problem = self._target, self._problem
        self.clear()
        if problem is not None:
            raise problem
        assert target is not None
        self.store.put(first.id, shaped(target, first), public=True)
        return True

    def _begin(self, chunk: wire.Data) -> None:
        if chunk.offset:
            raise ProtocolError("a chunk came without its beginning")
        if sorted(chunk.order) != list(range(len(chunk.shape))):
            raise ProtocolError(f"{chunk.order} is no order of {len(chunk.shape)} dimensions")
        dtype = wire.dtype_of(chunk.dtype)
        size = wire.nbytes_of(dtype, chunk.shape)
        self.store.claim(chunk.id, 1)
        try:
            # NumPy's limit, which holds for empty arrays too.
            if wire.nbytes_of(dtype, [n for n in chunk.shape if n]) > sys.maxsize:
                raise QuotaError(f"a tensor of shape {chunk.shape} is larger than an array can be")
            self._target = self.store.zeros(size)
        except (QuotaError, MemoryError) as error:
            self._problem = error
        self._first, self._size, self._done = chunk, size, 0
