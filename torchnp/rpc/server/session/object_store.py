"""What a session holds on the server: arrays by id, and the buffers that they share.

Bytes, privacy and poison belong to the buffer, not to the array: views of one buffer cost nothing, and what is
written through one of them is in all.
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
    """Why an object has no value: the earliest operator that failed on the way to it."""

    seq: int
    kind: str
    cls: str
    text: str
    op: str


SPARE = 256 << 20  # bytes that a session keeps of a shared budget without using them
FAILURE_BYTES = 16 << 20  # of the texts of failures that a session's objects keep whole
SHORT = 100  # characters that are kept of others
OVERRUN = 1 << 16  # failed objects over the limit: a client learns of its quota only at the next reply


class Buffer(msgspec.Struct, eq=False, gc=False):
    """Memory that one or more objects view.

    Attributes
    ----------
    public : bool
        Whether everything that was ever written here came from the client itself.
    readonly : str
        Name of the owner's dataset that lives here, or "".
    users : int
        How many objects view it.
    poison : Failure or None
        An operator that should have written here failed.
    mixed : str
        An operator that wrote here and left no row to itself, or "".
    """

    root: object
    nbytes: int
    public: bool
    readonly: str = ""
    users: int = 0
    poison: Failure | None = None
    mixed: str = ""


class StoredObject(msgspec.Struct, eq=False, gc=False):
    """One object: an array, or the failure that stands in its place.

    ``siblings`` are the ids of what the same operator made or wrote, if there is more than this object.
    """

    array: np.ndarray | None
    buffer: Buffer | None
    failure: Failure | None = None
    rows: Label = None
    siblings: tuple[int, ...] = ()

    @property
    def label(self) -> Label:
        """Which dimension indexes an owner's rows; None if the values are public."""
        if self.buffer is None or self.buffer.public:
            return None
        if self.buffer.mixed or self.rows is None:
            return Mixed(self.buffer.mixed or "a view")
        return self.rows

    @property
    def poison(self) -> Failure | None:
        return self.failure or (self.buffer.poison if self.buffer is not None else None)


def root_of(array: np.ndarray) -> tuple[object, int]:
    """The object that owns an array's memory, and its bytes; follows every kind of base."""
    owner: object = array
    nbytes, base = array.nbytes, array.base
    while base is not None:
        owner = base
        if isinstance(owner, np.ndarray):
            nbytes = owner.nbytes
        base = getattr(owner, "base", None)
        if base is None and type(owner) is not np.ndarray:
            base = getattr(owner, "owner", None)  # of a window that a kernel has on all bytes of an array
    return owner, nbytes


class ObjectStore:
    """The objects of one session, within its limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.entries: dict[int, StoredObject] = {}
        self.buffers: dict[int, Buffer] = {}
        self.nbytes = 0
        self.last_id = -1
        self._orders: dict[bytes, list] = {}  # of labels: the one copy of each, and how many objects have it
        self._failure_bytes = 0
        # Where sessions share a budget: asks it for room for so many bytes, and gives how many there are then.
        self.grow: Callable[[int], int] | None = None
        self._granted = 0  # bytes, up to which nothing need be asked

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, id_: int) -> StoredObject:
        """The object of an id; ProtocolError if there is none."""
        try:
            return self.entries[id_]
        except KeyError:
            raise ProtocolError(f"there is no object {id_} in this session") from None

    def claim(self, first: int, count: int) -> None:
        """Take new ids; ProtocolError unless all are above every id taken before."""
        if first <= self.last_id:
            raise ProtocolError(f"object id {first} was used before; ids are never used again")
        if count:
            self.last_id = first + count - 1

    def check_bytes(self, nbytes: int) -> None:
        """QuotaError if so many more bytes are over the limit."""
        if self.nbytes + nbytes <= self._granted:
            return
        if self.nbytes + nbytes > self.limits.max_bytes:
            raise QuotaError(
                f"the session holds {self.nbytes:,} bytes and the server allows {self.limits.max_bytes:,}: "
                f"{nbytes:,} more are too many"
            )
        self._ask(self.nbytes + nbytes)

    def _ask(self, nbytes: int) -> None:
        """Have room for so many bytes, and no more than a session may hold."""
        most = self.limits.max_bytes
        self._granted = most if self.grow is None else min(most, self.grow(nbytes))

    def check_objects(self, count: int = 1) -> None:
        """QuotaError if so many more objects are over the limit."""
        if len(self.entries) + count > self.limits.max_objects:
            raise QuotaError(f"the session holds {len(self.entries):,} objects, as many as the server allows")

    def zeros(self, nbytes: int) -> np.ndarray:
        """Memory that the limits have room for, of zeros: nobody meets here what was freed before.

        Raises
        ------
        QuotaError
            The session has no room for it.
        MemoryError
            The server has not.
        """
        self.check_bytes(nbytes)
        try:
            return np.zeros(nbytes, np.uint8)
        except ValueError:  # of a number that no address has
            raise MemoryError("the server is out of memory") from None

    def is_new(self, array: np.ndarray, nbytes: int) -> bool:
        """Whether the array's memory has so many bytes, and no object of the session lies in it."""
        owner, found = root_of(array)
        return found == nbytes and id(owner) not in self.buffers

    def put(
        self, id_: int, array: np.ndarray, public: bool, readonly: str = "", view: bool = True, rows: Label = None
    ) -> StoredObject:
        """Store an array under a claimed id.

        Parameters
        ----------
        rows : Label
            Of a private array.
        view : bool
            Whether the array may share memory with others of the session; if not and it does, a copy is stored.
        """
        if len(self.entries) >= self.limits.max_objects:
            self.check_objects()
        owner: Any = array.base
        if type(owner) is np.ndarray and owner.base is None:  # as most views are
            nbytes = owner.nbytes
        else:
            owner, nbytes = root_of(array)
        buffer = self.buffers.get(id(owner))
        if buffer is not None and not view:
            array = array.copy(order="K")  # in the order that the client believes
            owner, nbytes, buffer = array, array.nbytes, None
        if buffer is not None or readonly:
            nbytes = 0  # an owner's dataset is there anyway
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
        # An array that does not own its memory cannot be resized, so no kernel can pull it from under its views.
        entry = self.entries[id_] = StoredObject(array.view() if owner is array else array, buffer, None, rows)
        return entry

    def _with_order(self, rows: Label, nbytes: int) -> Label:
        """A label of an object that is stored with so many bytes: equal orders of rows are kept once, and counted.

        Raises
        ------
        QuotaError
            There is no room for both, and nothing was counted.
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
        """An object with a label is there no more."""
        if type(rows) is Rows and rows.order:
            held = self._orders[rows.order]
            held[1] -= 1
            if not held[1]:
                del self._orders[rows.order]
                self.nbytes -= len(rows.order)

    def add(self, id_: int, array: np.ndarray) -> None:
        """Store a public array that owns its memory under a claimed id: `put`, where nothing is to be considered."""
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
        """A new failure as objects keep it: without most of its text, where there have been many long ones."""
        self._failure_bytes += len(failure.text)
        if self._failure_bytes <= FAILURE_BYTES or len(failure.text) <= SHORT:
            return failure
        return replace(failure, text=f"{failure.text[:SHORT]}...")

    def put_failure(self, id_: int, failure: Failure) -> None:
        """Store a failure in the place of an array; ProtocolError from a client that goes on far over its quota."""
        if len(self.entries) >= self.limits.max_objects + OVERRUN:
            raise ProtocolError(f"the session went on for {OVERRUN:,} objects after its quota was used up")
        self.entries[id_] = StoredObject(None, None, failure)

    def delete(self, low: int, high: int) -> None:
        """Forget the objects of an inclusive range of ids, those that exist."""
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
