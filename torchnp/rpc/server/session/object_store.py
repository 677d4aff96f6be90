"""The objects of a session: arrays by id, and the buffers that they share.

Size, privacy and failure (poison) belong to the buffer, not to the array. So further views of a buffer cost nothing,
and a write through one view affects all views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from torchnp.rpc.exceptions import ProtocolError, QuotaError
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.privacy.row_labels import Label, Mixed, Rows


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an object has no value: the earliest failed operator on which it depends.

    Attributes
    ----------
    trace : str
        The server's stack at the error, for the owner's log; it is never sent.
    """

    seq: int
    kind: str
    cls: str
    text: str
    op: str
    trace: str = ""


SPARE = 256 << 20  # unused bytes of the shared budget that a session may keep
FAILURE_BYTES = 16 << 20  # total length of the failure texts that a session stores completely
SHORT = 100  # characters that are stored of later failure texts
# Number of failed objects allowed beyond the limit, because a client learns of its quota only from the next reply.
OVERRUN = 1 << 16


class Buffer(msgspec.Struct, eq=False, gc=False):
    """Memory that one or more objects view.

    Attributes
    ----------
    public : bool
        Whether everything ever written here came from the client, or was computed only from such data.
    readonly : str
        Name of the owner's dataset that is stored here; "" if it is no dataset.
    users : int
        Number of objects that are views of the buffer.
    poison : Failure or None
        Failure of an operator that should have written into the buffer.
    mixed : str
        Operator that wrote into the buffer and mixed the rows; "" if there is none.
    """

    root: object
    nbytes: int
    public: bool
    readonly: str = ""
    users: int = 0
    poison: Failure | None = None
    mixed: str = ""


class StoredObject(msgspec.Struct, eq=False, gc=False):
    """An object: an array, or the failure that replaces it.

    ``siblings`` are the ids of all objects that the same operator created or wrote; empty if there is only this object.
    """

    array: np.ndarray | None
    buffer: Buffer | None
    failure: Failure | None = None
    rows: Label = None
    siblings: tuple[int, ...] = ()

    @property
    def label(self) -> Label:
        """Row label; None if the values are public."""
        if self.buffer is None or self.buffer.public:
            return None
        if self.buffer.mixed or self.rows is None:
            return Mixed(self.buffer.mixed or "a view")
        return self.rows

    @property
    def poison(self) -> Failure | None:
        return self.failure or (self.buffer.poison if self.buffer is not None else None)


def root_of(array: np.ndarray) -> tuple[object, int]:
    """Return the object that owns an array's memory, and the number of its bytes. Bases of all kinds are followed."""
    owner: object = array
    nbytes, base = array.nbytes, array.base
    while base is not None:
        owner = base
        if isinstance(owner, np.ndarray):
            nbytes = owner.nbytes
        base = getattr(owner, "base", None)
        if base is None and type(owner) is not np.ndarray:
            # The array behind `kernels._memory._span`, which NumPy does not record as a base.
            base = getattr(owner, "owner", None)
    return owner, nbytes


class ObjectStore:
    """The objects of one session, which stay within the session's limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.entries: dict[int, StoredObject] = {}
        self.buffers: dict[int, Buffer] = {}
        self.nbytes = 0
        self.last_id = -1
        self._orders: dict[bytes, list] = {}  # row orders of labels, each stored once with the number of its uses
        self._failure_bytes = 0
        # Set if sessions share a budget: requests that the session may hold this many bytes, and returns the granted
        # number.
        self.grow: Callable[[int], int] | None = None
        self._granted = 0  # bytes that may be used without a request

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, id_: int) -> StoredObject:
        """Return an object by its id; raise ProtocolError if there is none."""
        try:
            return self.entries[id_]
        except KeyError:
            raise ProtocolError(f"there is no object {id_} in this session") from None

    def claim(self, first: int, count: int) -> None:
        """Claim new ids; raise ProtocolError unless all are above every id that was claimed before."""
        if first <= self.last_id:
            raise ProtocolError(f"object id {first} was used before; ids are never used again")
        if count:
            self.last_id = first + count - 1

    def check_bytes(self, nbytes: int) -> None:
        """Raise QuotaError if ``nbytes`` more bytes would exceed the limit."""
        if self.nbytes + nbytes <= self._granted:
            return
        if self.nbytes + nbytes > self.limits.max_bytes:
            raise QuotaError(
                f"the session holds {self.nbytes:,} bytes and the server allows {self.limits.max_bytes:,}: "
                f"{nbytes:,} more are too many"
            )
        self._ask(self.nbytes + nbytes)

    def _ask(self, nbytes: int) -> None:
        """Request ``nbytes`` in total, up to the session's limit."""
        most = self.limits.max_bytes
        self._granted = most if self.grow is None else min(most, self.grow(nbytes))

    def check_objects(self, count: int = 1) -> None:
        """Raise QuotaError if ``count`` more objects would exceed the limit."""
        if len(self.entries) + count > self.limits.max_objects:
            raise QuotaError(f"the session holds {len(self.entries):,} objects, as many as the server allows")

    def zeros(self, nbytes: int) -> np.ndarray:
        """Allocate zeroed memory within the limits; the zeros ensure that no freed data is visible.

        Raises
        ------
        QuotaError
            The session's limit would be exceeded.
        MemoryError
            The server is out of memory.
        """
        self.check_bytes(nbytes)
        try:
            return np.zeros(nbytes, np.uint8)
        except ValueError:  # more bytes than an address can count
            raise MemoryError("the server is out of memory") from None

    def is_new(self, array: np.ndarray, nbytes: int) -> bool:
        """Return whether an array's memory has exactly ``nbytes`` and no object of the session uses it."""
        owner, found = root_of(array)
        return found == nbytes and id(owner) not in self.buffers

    def put(
        self, id_: int, array: np.ndarray, public: bool, readonly: str = "", view: bool = True, rows: Label = None
    ) -> StoredObject:
        """Store an array under a claimed id.

        Parameters
        ----------
        rows : Label
            Row label of a private array.
        view : bool
            Whether the array may share memory with other objects of the session. If it must not, but does, a copy is
            stored.
        """
        if len(self.entries) >= self.limits.max_objects:
            self.check_objects()
        owner: Any = array.base
        if type(owner) is np.ndarray and owner.base is None:  # true for most views
            nbytes = owner.nbytes
        else:
            owner, nbytes = root_of(array)
        buffer = self.buffers.get(id(owner))
        if buffer is not None and not view:
            array = array.copy(order="K")  # keeps the layout that the client expects
            owner, nbytes, buffer = array, array.nbytes, None
        if buffer is not None or readonly:
            nbytes = 0  # a shared buffer is already counted, and an owner's dataset does not count for the session
        if rows is not None:
            rows = self._with_order(rows, nbytes)
        elif self.nbytes + nbytes > self._granted:
            self.check_bytes(nbytes)
        if buffer is None:
            buffer = self.buffers[id(owner)] = Buffer(owner, nbytes, public, readonly, 1)
            self.nbytes += nbytes
        else:
            buffer.users += 1
            if not public:
                buffer.public = False
        # The stored array does not own its memory, so it cannot be resized, and no kernel can free memory that has
        # views.
        entry = self.entries[id_] = StoredObject(array.view() if owner is array else array, buffer, None, rows)
        return entry

    def _with_order(self, rows: Label, nbytes: int) -> Label:
        """Return a label whose row order is stored only once.

        Check that there is room for it and for an object of ``nbytes``.

        Raises
        ------
        QuotaError
            There is no room for the object and the row order; nothing was counted.
        """
        if type(rows) is not Rows or not rows.order:
            self.check_bytes(nbytes)
            return rows
        held = self._orders.get(rows.order)
        self.check_bytes(nbytes + (len(rows.order) if held is None else 0))
        if held is None:
            held = self._orders[rows.order] = [rows.order, 0]
            self.nbytes += len(rows.order)
        held[1] += 1
        return rows if rows.order is held[0] else Rows(rows.dataset, rows.dim, held[0])

    def _without_order(self, rows: Label) -> None:
        """Release the row order of a deleted object's label."""
        if type(rows) is Rows and rows.order:
            held = self._orders[rows.order]
            held[1] -= 1
            if not held[1]:
                del self._orders[rows.order]
                self.nbytes -= len(rows.order)

    def add(self, id_: int, array: np.ndarray) -> None:
        """Store a public array that owns its memory under a claimed id; this is a fast path of `put`."""
        nbytes, entries = array.nbytes, self.entries
        held, buffer = self.nbytes + nbytes, Buffer(array, nbytes, True, "", 1)
        if (
            held <= self._granted
            and len(entries) < self.limits.max_objects
            and self.buffers.setdefault(id(array), buffer) is buffer
        ):
            self.nbytes = held
            entries[id_] = StoredObject(array.view(), buffer)
        else:
            self.put(id_, array, True, view=False)

    def remembered(self, failure: Failure) -> Failure:
        """Return a new failure as objects store it: with a shortened text, if there have been many long texts."""
        self._failure_bytes += len(failure.text)
        if self._failure_bytes <= FAILURE_BYTES or len(failure.text) <= SHORT:
            return failure
        return replace(failure, text=f"{failure.text[:SHORT]}...")

    def put_failure(self, id_: int, failure: Failure) -> None:
        """Store a failure instead of an array; raise ProtocolError if the client is already far over its quota."""
        if len(self.entries) >= self.limits.max_objects + OVERRUN:
            raise ProtocolError(f"the session went on for {OVERRUN:,} objects after its quota was used up")
        self.entries[id_] = StoredObject(None, None, failure)

    def delete(self, low: int, high: int) -> None:
        """Delete the objects that exist in an inclusive range of ids."""
        entries, buffers = self.entries, self.buffers
        high = min(high, self.last_id)
        ids: Iterable[int] = range(low, high + 1)
        if high - low >= len(entries):  # a range of 2**63 ids has no len()
            ids = [i for i in entries if low <= i <= high]
        for id_ in ids:
            entry = entries.pop(id_, None)
            if entry is not None and (buffer := entry.buffer) is not None:
                if buffer.users > 1:
                    buffer.users -= 1
                else:
                    del buffers[id(buffer.root)]
                    self.nbytes -= buffer.nbytes
                if entry.rows is not None:
                    self._without_order(entry.rows)
        if self.grow is not None and self._granted > self.nbytes + SPARE:
            self._ask(self.nbytes)

    def clear(self) -> None:
        self.entries.clear()
        self.buffers.clear()
        self._orders.clear()
        self.nbytes = 0
