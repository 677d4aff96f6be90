"""The wire frames of the remote tensor: msgspec structs encoded as MessagePack arrays.

They contain no pickle and no code.

The types declare every bound: the decoder rejects a frame that is too long, too deep or of the wrong type.

A connection carries messages. The first message of each side is a frame without a number: HELLO from the client, and
the server's answer. Every later message is a frame number (eight bytes, big-endian) and a frame. Session frames are
numbered from 1 in each direction, across all connections of the session; 0 marks frames that concern only the
connection (TICKET, CREDIT, BYE, and an ERR that ends it). On a byte stream a four-byte big-endian length precedes each
message.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

import torchnp
from torchnp import dtypes
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.wire.opcode_table import DYNAMIC as DYNAMIC
from torchnp.rpc.wire.opcode_table import UNSAFE_VIEWS as UNSAFE_VIEWS
from torchnp.rpc.wire.opcode_table import Agreement as Agreement
from torchnp.rpc.wire.opcode_table import agreement as agreement
from torchnp.rpc.wire.opcode_table import can_travel as can_travel

VERSION = 9
CHUNK = 1 << 20  # bytes of tensor data in one DATA or RESULT frame
MAX_FRAME = CHUNK + (1 << 16)
MAX_MESSAGE = MAX_FRAME + 8
# Flow-control window: maximum cost of the frames that one side has sent and the other side has not yet taken.
WINDOW = 4 << 20
LONG = 1 << 15  # messages of at least this many bytes are not copied into a joint write
OVERHEAD = 64  # cost of a frame in addition to its bytes
MAX_HELLO = 1 << 12  # bytes that a client may send before it is authenticated
GRPC_SERVICE = "torchnp.Remote"
MAX_OPS = 1024
MAX_ITEMS = 1 << 16
MAX_PROGRAMS = 4 << 20  # bytes of all programs of a session; in the server's memory they take up to 30 times as much
MAX_NAME = 256
MAX_TOKEN = 1024
MAX_LIBRARIES = 16  # other libraries whose operators a server runs
MAX_LIBRARY_OPS = 1 << 14  # operators of each
MAX_DIMS = 64
MAX_NDIM = 64  # NumPy's limit
LAST = 2**63 - 1  # the largest id

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
    """A list of items. Lists do not nest, so no frame is deeper than five levels."""

    items: Annotated[list[Item], msgspec.Meta(max_length=MAX_ITEMS)]


class Ints(Items, tag=4):
    """A list of 64-bit integers. The decoder checks them, the encoder does not."""

    items: Annotated[list[Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]], msgspec.Meta(max_length=MAX_ITEMS)]  # type: ignore[assignment]


Arg = Item | Items | Ints

# The layout that the client expects for a result: None for a new tensor in C order, HOLE if there is no tensor,
# otherwise strides.
HOLE: Literal[0] = 0
Expected = None | Literal[0] | Annotated[list[UInt], msgspec.Meta(max_length=MAX_NDIM)]


class Op(_Frame, tag=0):
    """One operator: its index in `Agreement.names`, the ids of its results, and its arguments.

    Results have consecutive ids from ``first``. ``expected`` is empty if all results are in C order. ``key`` is the
    seed of the operator's random numbers, if it draws any.
    """

    index: UInt
    first: UInt
    count: Annotated[int, msgspec.Meta(ge=0, le=MAX_ITEMS)]
    args: Annotated[list[Arg], msgspec.Meta(max_length=256)]
    kwargs: Annotated[dict[Name, Arg], msgspec.Meta(max_length=64)]
    expected: Annotated[list[Expected], msgspec.Meta(max_length=MAX_ITEMS)] = []
    key: UInt | None = None


# ---------------------------------------------------------------- client to server


def package() -> str:
    """Return this side's torchnp and target torch versions, for the error message if client and server differ."""
    return f"{torchnp.__version__} for torch {torchnp.target()}"


class Hello(_Frame, tag=0):
    version: UInt
    digest: Name
    ops: UInt
    package: Name
    token: Annotated[str, msgspec.Meta(max_length=MAX_TOKEN)]
    resume: Name = ""  # secret that resumes a session whose connection was lost
    due: UInt = 1  # number of the next server frame that the client expects


class Ops(_Frame, tag=1):
    """Operators with consecutive sequence numbers, starting at ``seq``."""

    seq: UInt
    ops: Annotated[list[Op], msgspec.Meta(max_length=MAX_OPS)]


class Data(_Frame, tag=2):
    """A chunk of an uploaded tensor; ``order`` lists the dimensions from outermost to innermost in memory."""

    seq: UInt
    id: UInt
    dtype: Name
    shape: Shape
    order: Shape
    offset: UInt
    raw: Raw


class Del(_Frame, tag=3):
    """Delete objects that no longer have a handle.

    Their ids are given as ranges; ``seq`` is the next sequence number.

    A range is two numbers: how many ids are skipped since the end of the previous range (for the first range, since 0),
    and the range's length minus one.
    """

    seq: UInt
    ranges: Annotated[list[tuple[UInt, UInt]], msgspec.Meta(max_length=MAX_ITEMS)]


class Open(_Frame, tag=5):
    """Bind an id to one of the owner's datasets."""

    seq: UInt
    id: UInt
    name: Name


class Sync(_Frame, tag=6):
    request: UInt
    seq: UInt


class Terms(_Frame):
    """Terms of a noised sum or mean of clipped rows, with either the noise ``sigma`` or the cost ``eps``."""

    reduce: Name
    clip: float
    sigma: float | None = None
    eps: float | None = None


class Publish(_Frame, tag=7):
    """Ask for exact values, or for a release of an owner's rows. A release is charged at most once for each ``key``."""

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


class Wait(_Frame, tag=12):
    """Ask whether objects have values; the answer is `Status`, or the earliest failure on which they depend."""

    request: UInt
    seq: UInt
    ids: Annotated[list[UInt], msgspec.Meta(max_length=MAX_ITEMS)]


class Packed(_Frame, tag=13):
    """A chunk of an uploaded tensor, as in `Data` but compressed with zlib; ``size`` is the uncompressed size."""

    seq: UInt
    id: UInt
    dtype: Name
    shape: Shape
    order: Shape
    offset: UInt
    size: Annotated[int, msgspec.Meta(ge=1, le=CHUNK)]
    raw: Raw


class Define(_Frame, tag=9):
    """A chunk of a program. The program's name is the hash of its bytes: see `torchnp.rpc.wire.programs`."""

    seq: UInt
    program: Name
    size: Annotated[int, msgspec.Meta(ge=1, le=MAX_PROGRAMS)]
    offset: UInt
    raw: Raw


class CallProgram(_Frame, tag=10):
    """Run a program.

    Results have ids from ``first``, ``inputs`` are object ids, and ``keys`` are seeds for random operators.

    A call takes one sequence number per operator of the program.
    """

    seq: UInt
    program: Name
    first: UInt
    inputs: Annotated[list[UInt], msgspec.Meta(max_length=MAX_ITEMS)]
    keys: Annotated[list[UInt], msgspec.Meta(max_length=MAX_ITEMS)] = []


class Undefine(_Frame, tag=11):
    """Delete a program that will not be called again."""

    seq: UInt
    program: Name


# ---------------------------------------------------------------- server to client


class Dataset(_Frame):
    name: Name
    dtype: Name
    shape: Shape


class Library(_Frame):
    """Another library whose operators the server runs: see `Agreement.with_server_libraries`."""

    name: Name
    ops: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIBRARY_OPS)]
    digest: Name


class Welcome(_Frame, tag=16):
    package: Name
    max_bytes: UInt
    max_objects: UInt
    datasets: list[Dataset]
    libraries: Annotated[list[Library], msgspec.Meta(max_length=MAX_LIBRARIES)] = []


class Ack(_Frame, tag=17):
    """The server has applied all sequence numbers below ``seq``."""

    seq: UInt


class Err(_Frame, tag=18):
    """A failure of the operator ``seq`` (``kind`` "op" or "quota"), of a request, or of the connection.

    ``request`` is 0 unless the frame answers a request; ``fatal`` says that the server has closed the connection.
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
    """Answer to SYNC: all sequence numbers below ``seq`` are applied.

    ``objects`` and ``bytes`` count what the session holds.
    """

    request: UInt
    seq: UInt
    objects: UInt
    bytes: UInt


class Quoted(_Frame, tag=21):
    """Answer to QuoteRequest."""

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


# ---------------------------------------------------------------- connection frames, numbered 0


class Ticket(_Frame, tag=32):
    """Sent after WELCOME: the secret with which a new connection resumes the session; "" if it cannot be resumed.

    ``due`` is the number of the first frame that the server has not taken, so earlier frames need not be sent again.
    """

    resume: Name
    due: UInt


class Credit(_Frame, tag=33):
    """The peer has taken all frames below ``due``.

    The sender may drop them, and the flow-control window starts at ``due``.
    """

    due: UInt


class Bye(_Frame, tag=34):
    """End of the session: no frame follows."""


Request = (
    Hello | Ops | Data | Del | Open | Sync | Publish | QuoteRequest | Define | CallProgram | Undefine | Wait | Packed
)
Reply = Welcome | Ack | Err | Result | Status | Quoted

encode = msgspec.msgpack.Encoder().encode
_request = msgspec.msgpack.Decoder(Request).decode
_reply = msgspec.msgpack.Decoder(Reply).decode
_control = msgspec.msgpack.Decoder(Ticket | Credit | Bye | Err).decode


def decode_request(frame: Bytes) -> Request:
    """Decode a client's frame; raise ProtocolError if it is malformed."""
    return _decode(frame, _request)


def decode_reply(frame: Bytes) -> Reply:
    """Decode a server's frame; raise ProtocolError if it is malformed."""
    return _decode(frame, _reply)


def decode_control(frame: Bytes) -> Ticket | Credit | Bye | Err:
    """Decode a frame numbered 0; raise ProtocolError if it is malformed."""
    return _decode(frame, _control)


def _decode(frame: Bytes, decoder: Any) -> Any:
    if len(frame) > MAX_FRAME:
        raise ProtocolError(f"a frame of {len(frame)} bytes is longer than the {MAX_FRAME} that the protocol allows")
    try:
        return decoder(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise ProtocolError(f"malformed frame: {error}") from None


def listed(values: list[Any]) -> Items:
    """Wrap a list for a frame: as `Ints` if it has only 64-bit integers, else as `Items`."""
    return Ints(values) if set(map(type, values)) == {int} and max(values) < 2**63 else Items(values)


def numbered(number: int, frame: Bytes) -> bytes:
    """Return a message: the frame number and the frame."""
    return number.to_bytes(8, "big") + frame


def split(message: Bytes) -> tuple[int, Bytes]:
    """Split a message into frame number and frame; raise ProtocolError if it is too short or too long."""
    if not 8 < len(message) <= MAX_MESSAGE:
        raise ProtocolError(f"a message of {len(message)} bytes is none: it has from 9 to {MAX_MESSAGE}")
    return int.from_bytes(message[:8], "big"), memoryview(message)[8:]


def lengthened(message: bytes) -> bytes:
    """Prepend a message's length, as on a byte stream."""
    return len(message).to_bytes(4, "big") + message


def gathered(messages: Iterable[Bytes]) -> Iterable[Bytes]:
    """Prepend lengths to messages for a byte stream. Short messages are joined, long ones are not copied."""
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
    """Return the NumPy dtype for torch's name of a dtype, which frames contain."""
    try:
        return _DTYPES[name]
    except KeyError:
        raise ProtocolError(f"unknown dtype {name!r}") from None


_DTYPES: dict[str, np.dtype] = {str(dt): dt for dt in dtypes.STORED if dt != dtypes.float8_e8m0fnu}
DTYPES = frozenset(_DTYPES.values())


SAMPLE = 1 << 14  # bytes of a chunk that are compressed first, to find out whether compression pays
PAYS = 0.9  # the largest ratio of compressed to plain bytes at which a chunk is sent compressed


def packed(data: Data) -> Data | Packed:
    """Return a chunk compressed, or unchanged if compression saves too little."""
    raw = memoryview(data.raw)
    if len(raw) < 256 or len(zlib.compress(raw[:SAMPLE], 1)) > PAYS * min(len(raw), SAMPLE):
        return data
    small = zlib.compress(raw, 1)
    if len(small) > PAYS * len(raw):
        return data
    return Packed(data.seq, data.id, data.dtype, data.shape, data.order, data.offset, len(raw), memoryview(small))


def unpacked(chunk: Packed) -> Data:
    """Return a chunk decompressed; raise ProtocolError unless its size is the declared one.

    Whatever the chunk contains, at most one byte more than the declared size is allocated.
    """
    decoder = zlib.decompressobj()
    try:
        raw = decoder.decompress(chunk.raw, chunk.size + 1)
    except zlib.error as error:
        raise ProtocolError(f"a compressed chunk is malformed: {error}") from None
    if len(raw) != chunk.size or not decoder.eof or decoder.unused_data:
        raise ProtocolError("a compressed chunk has another size than it gives")
    return Data(chunk.seq, chunk.id, chunk.dtype, chunk.shape, chunk.order, chunk.offset, memoryview(raw))


def nbytes_of(dtype: np.dtype, shape: Iterable[int]) -> int:
    """Return the size of a dense tensor in bytes, computed without overflow."""
    return math.prod(shape) * dtype.itemsize


def as_bytes(array: np.ndarray) -> memoryview:
    """Return a C-contiguous array as bytes.

    The view goes through uint8, because ml_dtypes' types have no buffer format.
    """
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def chunks(raw: memoryview) -> Iterable[tuple[int, memoryview]]:
    """Yield pairs of an offset and a part of at most CHUNK bytes; an empty tensor gives one empty part."""
    for offset in range(0, max(len(raw), 1), CHUNK):
        yield offset, raw[offset : offset + CHUNK]
