"""The frames of the remote tensor: msgspec structs as arrays, MessagePack, no pickle and no code.

Every bound is in a type: a frame that is too long, too deep or of the wrong type does not get past the decoder.

A connection carries messages. The first of each side is a bare frame, HELLO and the answer to it; then each is a number,
eight bytes, big-endian, and a frame. Frames of the session are counted from 1 in each direction, over all connections that
carry it; 0 is for what concerns the connection alone (TICKET, CREDIT, BYE, and an ERR that ends it). On a byte stream each
message follows its length, four bytes, big-endian.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from torchnp import dtypes
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.wire.opcode_table import DYNAMIC as DYNAMIC
from torchnp.rpc.wire.opcode_table import UNSAFE_VIEWS as UNSAFE_VIEWS
from torchnp.rpc.wire.opcode_table import Agreement as Agreement
from torchnp.rpc.wire.opcode_table import agreement as agreement
from torchnp.rpc.wire.opcode_table import can_travel as can_travel

VERSION = 7
CHUNK = 1 << 20  # bytes of tensor data in one DATA or RESULT frame
MAX_FRAME = CHUNK + (1 << 16)
MAX_MESSAGE = MAX_FRAME + 8
WINDOW = 4 << 20  # cost of the frames that one side may have sent and the other not taken
LONG = 1 << 15  # bytes of a message that is not copied to go with others
OVERHEAD = 64  # what a frame costs beside its bytes
MAX_HELLO = 1 << 12  # what a connection may send before it is known
GRPC_SERVICE = "torchnp.Remote"
MAX_OPS = 1024
MAX_ITEMS = 1 << 16
MAX_PROGRAMS = 4 << 20  # bytes of all programs of a session; the server's memory for them is some 20 times that
MAX_NAME = 256
MAX_TOKEN = 1024
MAX_DIMS = 64
MAX_NDIM = 64  # NumPy's own limit
LAST = 2**63 - 1  # id

UInt = Annotated[int, msgspec.Meta(ge=0, le=LAST)]
Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
Text = Annotated[str, msgspec.Meta(max_length=1 << 14)]
Shape = Annotated[list[UInt], msgspec.Meta(max_length=MAX_NDIM)]
Raw = memoryview
Bytes = bytes | bytearray | memoryview


class _Frame(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    pass


# ---------------------------------------------------------------- arguments


class Handle(_Frame, tag=0):
    """A tensor that the server holds."""

    id: UInt


class Dtype(_Frame, tag=1):
    name: Name


class Complex(_Frame, tag=2):
    real: float
    imag: float


Item = None | bool | int | float | Name | Handle | Dtype | Complex


class Items(_Frame, tag=3):
    """A list; lists do not nest, so that no frame is deeper than five levels."""

    items: Annotated[list[Item], msgspec.Meta(max_length=MAX_ITEMS)]


class Ints(Items, tag=4):
    """A list of integers of 64 bits: its items are looked at by the decoder alone."""

    items: Annotated[list[Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]], msgspec.Meta(max_length=MAX_ITEMS)]  # type: ignore[assignment]


Arg = Item | Items | Ints

# What the client expects of one result: None is a new tensor in C order, HOLE no tensor, a list its strides.
HOLE: Literal[0] = 0
Expected = None | Literal[0] | Annotated[list[UInt], msgspec.Meta(max_length=MAX_NDIM)]


class Op(_Frame, tag=0):
    """One operator: its index in the agreed table, the ids that its results get, and its arguments.

    Results are numbered in order from ``first``; ``expected`` is empty where all of them are in C order. ``key`` seeds
    the random numbers of this operator, and is there if it draws any.
    """

    index: UInt
    first: UInt
    count: Annotated[int, msgspec.Meta(ge=0, le=MAX_ITEMS)]
    args: Annotated[list[Arg], msgspec.Meta(max_length=256)]
    kwargs: Annotated[dict[Name, Arg], msgspec.Meta(max_length=64)]
    expected: Annotated[list[Expected], msgspec.Meta(max_length=MAX_ITEMS)] = []
    key: UInt | None = None


# ---------------------------------------------------------------- client to server


class Hello(_Frame, tag=0):
    version: UInt
    digest: Name
    ops: UInt
    package: Name
    token: Annotated[str, msgspec.Meta(max_length=MAX_TOKEN)]
    resume: Name = ""  # the secret of a session whose connection was lost
    due: UInt = 1  # the number of the server's next frame in it


class Ops(_Frame, tag=1):
    """Operators with consecutive sequence numbers from ``seq``."""

    seq: UInt
    ops: Annotated[list[Op], msgspec.Meta(max_length=MAX_OPS)]


class Data(_Frame, tag=2):
    """A chunk of a tensor that the client sends; ``order`` lists the dimensions from outermost in memory to innermost."""

    seq: UInt
    id: UInt
    dtype: Name
    shape: Shape
    order: Shape
    offset: UInt
    raw: Raw


class Del(_Frame, tag=3):
    """Objects that no handle refers to any more, as ranges of ids; ``seq`` is the next sequence number.

    A range is how many ids there are between the last range (at first id 0) and it, and how many it has beside its first.
    """

    seq: UInt
    ranges: Annotated[list[tuple[UInt, UInt]], msgspec.Meta(max_length=MAX_ITEMS)]


class Open(_Frame, tag=5):
    """Bind an id to a dataset of the owner's."""

    seq: UInt
    id: UInt
    name: Name


class Sync(_Frame, tag=6):
    request: UInt
    seq: UInt


class Terms(_Frame):
    """A noised sum or mean of clipped rows: its noise, or what it may cost."""

    reduce: Name
    clip: float
    sigma: float | None = None
    eps: float | None = None


class Publish(_Frame, tag=7):
    """Ask for values: exact ones, or a release of an owner's rows, under a key that never pays twice."""

    request: UInt
    seq: UInt
    id: UInt
    key: Name = ""
    terms: Terms | None = None


class QuoteRequest(_Frame, tag=8):
    """Ask what a release would cost."""

    request: UInt
    seq: UInt
    id: UInt
    terms: Terms


class Define(_Frame, tag=9):
    """A chunk of a program, whose name is the hash of its bytes: see `torchnp.rpc.wire.programs`."""

    seq: UInt
    program: Name
    size: Annotated[int, msgspec.Meta(ge=1, le=MAX_PROGRAMS)]
    offset: UInt
    raw: Raw


class Call(_Frame, tag=10):
    """Run a program: its results are numbered from ``first``, ``inputs`` are objects, and ``keys`` seed what is random.

    It takes as many sequence numbers as the program has operators.
    """

    seq: UInt
    program: Name
    first: UInt
    inputs: Annotated[list[UInt], msgspec.Meta(max_length=MAX_ITEMS)]
    keys: Annotated[list[UInt], msgspec.Meta(max_length=MAX_ITEMS)] = []


class Undefine(_Frame, tag=11):
    """A program is not called any more."""

    seq: UInt
    program: Name


# ---------------------------------------------------------------- server to client


class Dataset(_Frame):
    name: Name
    dtype: Name
    shape: Shape


class Welcome(_Frame, tag=16):
    package: Name
    max_bytes: UInt
    max_objects: UInt
    datasets: list[Dataset]


class Ack(_Frame, tag=17):
    """All sequence numbers below ``seq`` have been applied."""

    seq: UInt


class Err(_Frame, tag=18):
    """A failure: of the operator ``seq`` (``kind`` "op" or "quota"), of a request, or of the connection.

    ``request`` is 0 unless the frame answers one; ``fatal`` says that the server has closed the connection.
    """

    kind: Name
    cls: Name
    text: Text
    op: Name = ""
    seq: int = -1
    request: UInt = 0
    fatal: bool = False


class Result(_Frame, tag=19):
    """A chunk of a published tensor, in C order."""

    request: UInt
    dtype: Name
    shape: Shape
    offset: UInt
    raw: Raw


class Status(_Frame, tag=20):
    """Answers SYNC: everything below ``seq`` has been applied, and what the session holds."""

    request: UInt
    seq: UInt
    objects: UInt
    bytes: UInt


class Quoted(_Frame, tag=21):
    """Answers QUOTE."""

    request: UInt
    dataset: Name
    sigma: float
    rho: float
    epsilon: float
    spent: float
    after: float
    budget: float
    delta: float
    releases: UInt


# ---------------------------------------------------------------- of the connection, numbered 0


class Ticket(_Frame, tag=32):
    """Follows WELCOME: what the session is resumed with after its connection was lost, "" if it cannot be.

    ``due`` is the number of the first frame that has not been taken: what came before need not be sent again.
    """

    resume: Name
    due: UInt


class Credit(_Frame, tag=33):
    """All frames below ``due`` have been taken: they need not be kept, and WINDOW counts from there."""

    due: UInt


class Bye(_Frame, tag=34):
    """Nothing follows: the session is over."""


Request = Hello | Ops | Data | Del | Open | Sync | Publish | QuoteRequest | Define | Call | Undefine
Reply = Welcome | Ack | Err | Result | Status | Quoted

encode = msgspec.msgpack.Encoder().encode
_request = msgspec.msgpack.Decoder(Request).decode
_reply = msgspec.msgpack.Decoder(Reply).decode
_control = msgspec.msgpack.Decoder(Ticket | Credit | Bye | Err).decode


def decode_request(frame: Bytes) -> Request:
    """The client's frame; ProtocolError if it is not one."""
    return _decode(frame, _request)


def decode_reply(frame: Bytes) -> Reply:
    """The server's frame; ProtocolError if it is not one."""
    return _decode(frame, _reply)


def decode_control(frame: Bytes) -> Ticket | Credit | Bye | Err:
    """A frame numbered 0; ProtocolError if it is none."""
    return _decode(frame, _control)


def _decode(frame: Bytes, decoder: Any) -> Any:
    if len(frame) > MAX_FRAME:
        raise ProtocolError(f"a frame of {len(frame)} bytes is longer than the {MAX_FRAME} that the protocol allows")
    try:
        return decoder(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise ProtocolError(f"malformed frame: {error}") from None


def listed(values: list[Any]) -> Items:
    """A list as a frame carries it."""
    return Ints(values) if set(map(type, values)) == {int} and max(values) < 2**63 else Items(values)


def numbered(number: int, frame: Bytes) -> bytes:
    """The message of a frame."""
    return number.to_bytes(8, "big") + frame


def split(message: Bytes) -> tuple[int, Bytes]:
    """The number and the frame of a message; ProtocolError if it is too short or too long."""
    if not 8 < len(message) <= MAX_MESSAGE:
        raise ProtocolError(f"a message of {len(message)} bytes is none: it has from 9 to {MAX_MESSAGE}")
    return int.from_bytes(message[:8], "big"), memoryview(message)[8:]


def lengthened(message: bytes) -> bytes:
    """The message as a byte stream carries it."""
    return len(message).to_bytes(4, "big") + message


def gathered(messages: Iterable[Bytes]) -> Iterable[Bytes]:
    """Messages as a byte stream carries them: short ones together, and long ones without a copy."""
    part = bytearray()
    for message in messages:
        part += len(message).to_bytes(4, "big")
        if len(message) < LONG:
            part += message
        else:
            yield part
            yield message
            part = bytearray()
    if part:
        yield part


# ---------------------------------------------------------------- tensors


def dtype_of(name: str) -> np.dtype:
    """The dtype that a frame names by torch's name."""
    try:
        return _DTYPES[name]
    except KeyError:
        raise ProtocolError(f"unknown dtype {name!r}") from None


_DTYPES: dict[str, np.dtype] = {str(dt): dt for dt in dtypes.ALL if dt != dtypes.float8_e8m0fnu}
DTYPES = frozenset(_DTYPES.values())


def nbytes_of(dtype: np.dtype, shape: Iterable[int]) -> int:
    """Bytes of a dense tensor, without overflow."""
    return math.prod(shape) * dtype.itemsize


def as_bytes(array: np.ndarray) -> memoryview:
    """The bytes of a C-contiguous array, without a copy; ml_dtypes' types have no buffer format of their own."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def chunks(raw: memoryview) -> Iterable[tuple[int, memoryview]]:
    """(offset, part) of at most CHUNK bytes; an empty tensor is one empty part."""
    for offset in range(0, max(len(raw), 1), CHUNK):
        yield offset, raw[offset : offset + CHUNK]
