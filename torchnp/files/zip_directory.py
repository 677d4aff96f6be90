"""Reader for the directory of a zip archive: lists the members without reading any.

``zipfile`` builds all entries of a directory before a caller can refuse them, accepts two members of one name, and
searches for the end record where no writer puts it. This reader supports what ``torch.export.save`` and ``numpy.savez``
write.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np

from torchnp.files.malformed import Malformed, shown

MAX_MEMBERS = 1_000_000
STORED, DEFLATED = 0, 8
ENCRYPTED, UTF8 = 1, 1 << 11  # bits of a member's flags
DEFLATE_RATIO = 1032  # maximum number of bytes to which deflate expands one byte
CHUNK = 1 << 20
_END, _END_MARK = struct.Struct("<4s4H2LH"), b"PK\5\6"
_LOCATOR, _LOCATOR_MARK = struct.Struct("<4sLQL"), b"PK\6\7"
_END64, _END64_MARK = struct.Struct("<4sQ2H2L4Q"), b"PK\6\6"
_MEMBER, _MEMBER_MARK = struct.Struct("<4s6H3L5H2L"), b"PK\1\2"
_LOCAL, _LOCAL_MARK = struct.Struct("<4s5H3L2H"), b"PK\3\4"
_LONGEST_COMMENT = 0xFFFF
_FULL32 = 0xFFFFFFFF  # marks a number that does not fit in 32 bits and is stored elsewhere


class Member(NamedTuple):
    """A member as the directory describes it.

    Attributes
    ----------
    name : str
        The name, as the archive spells it.
    method, flags, crc : int
        The compression method, the flags, and the CRC-32 of the member's bytes.
    packed, size : int
        Compressed and uncompressed size of the member, in bytes.
    offset : int
        Offset of the member's header in the file.
    """

    name: str
    method: int
    flags: int
    crc: int
    packed: int
    size: int
    offset: int


def read_members(file: IO[bytes], limit: int = MAX_MEMBERS) -> list[Member]:
    """Read the members of an archive, in the directory's order.

    Parameters
    ----------
    file : binary file
        A seekable file.
    limit : int
        The largest allowed number of members, which is checked before any entry is read.

    Raises
    ------
    Malformed
        The file is not a zip archive, is cut short, or its members claim more bytes than it has.
    """
    length = file.seek(0, io.SEEK_END)
    count, size, start = _directory_place(file, length)
    if count > limit:
        raise Malformed(f"{count} members, more than {limit}")
    if count * _MEMBER.size > size:
        raise Malformed(f"a directory of {size} bytes, which are too few for {count} members")
    file.seek(start)
    data = file.read(size)
    members, at = [], 0
    for _ in range(count):
        member, at = _member(data, at)
        if member.offset + _LOCAL.size + member.packed > length:
            raise Malformed(
                f"member {shown(member.name)} claims {member.size} bytes ({member.packed} in the file), of a file of {length}"
            )
        members.append(member)
    if at != size:
        raise Malformed(f"a directory of {size} bytes, of which {count} members take {at}")
    if (total := sum(m.packed for m in members)) > length:
        raise Malformed(f"{length} bytes, and its members claim {total}: they overlap")
    return members


def _directory_place(file: IO[bytes], length: int) -> tuple[int, int, int]:
    """Return the number of members, and the size and offset of the directory, from the end of the file."""
    start = max(0, length - _END.size - _LONGEST_COMMENT)  # a comment may follow the end record
    file.seek(start)
    tail = file.read(length - start)
    at = tail.rfind(_END_MARK)
    if at < 0 or len(tail) - at < _END.size:
        raise Malformed("no directory at its end")
    _, disk, first_disk, here, count, size, place, comment = _END.unpack_from(tail, at)
    end = start + at
    if at + _END.size + comment != len(tail) or disk or first_disk or here != count:
        raise Malformed("no directory at its end")
    file.seek(max(0, end - _LOCATOR.size))
    locator = file.read(min(end, _LOCATOR.size))
    # torch writes this record in small files too.
    if len(locator) == _LOCATOR.size and locator.startswith(_LOCATOR_MARK):
        end, count, size, place = _long_end(file, _LOCATOR.unpack(locator)[2], end)
    if place + size != end:
        raise Malformed(f"a directory of {size} bytes at {place}, which does not end at {end}")
    return count, size, place


def _long_end(file: IO[bytes], place: int, end: int) -> tuple[int, int, int, int]:
    """Return where the directory ends, and the 64-bit numbers that replace those that do not fit in 16 or 32 bits."""
    if place + _END64.size > end:
        raise Malformed("no directory at its end")
    file.seek(place)
    found = _END64.unpack(file.read(_END64.size))
    if found[0] != _END64_MARK or found[6] != found[7]:
        raise Malformed("no directory at its end")
    return place, found[7], found[8], found[9]


def _member(data: bytes, at: int) -> tuple[Member, int]:
    """Return the member whose entry begins at a position in the directory, and where the entry ends."""
    if not data.startswith(_MEMBER_MARK, at) or at + _MEMBER.size > len(data):
        raise Malformed(f"no member at byte {at} of its directory")
    (_, _, _, flags, method, _, _, crc, packed, size, named, extra, comment, _, _, _, offset) = _MEMBER.unpack_from(
        data, at
    )
    start = at + _MEMBER.size
    behind = start + named + extra + comment
    if behind > len(data):
        raise Malformed("a directory that is cut short")
    try:
        name = data[start : start + named].decode("utf-8" if flags & UTF8 else "cp437")
    except UnicodeDecodeError as error:
        raise Malformed(f"a member whose name is no text: {error}") from error
    size, packed, offset = _long_numbers([size, packed, offset], data, start + named, start + named + extra)
    return Member(name, method, flags, crc, packed, size, offset), behind


def _long_numbers(numbers: list[int], data: bytes, at: int, end: int) -> list[int]:
    """Return the sizes and the offset of a member; those that need 64 bits are in a separate field."""
    if _FULL32 not in numbers:
        return numbers
    while at + 4 <= end:
        kind, length = struct.unpack_from("<HH", data, at)
        at += 4
        if kind == 1:
            places = [i for i, n in enumerate(numbers) if n == _FULL32]
            if length < 8 * len(places) or at + length > end:
                break
            found = struct.unpack_from(f"<{len(places)}Q", data, at)
            for i, n in zip(places, found):
                numbers[i] = n
            break
        at += length
    return numbers


# ---------------------------------------------------------------- the bytes of a member


def data_start(file: IO[bytes], member: Member) -> int:
    """Return where the bytes of a member begin, which is after the member's own header.

    Raises
    ------
    Malformed
        The header is damaged, or belongs to another member.
    """
    length = file.seek(0, io.SEEK_END)
    file.seek(member.offset)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size or not header.startswith(_LOCAL_MARK):
        raise Malformed("there is no header where it should begin")
    *_, named, extra = _LOCAL.unpack(header)
    name = file.read(named)
    if name != member.name.encode("utf-8" if member.flags & UTF8 else "cp437"):
        raise Malformed(f"its header has the name {shown(name)}")
    start = member.offset + _LOCAL.size + named + extra
    if start + member.packed > length:
        raise Malformed(f"its {member.packed} bytes end behind the file")
    return start


def read_member(file: IO[bytes], member: Member) -> np.ndarray:
    """Return the bytes of a member as a new array of uint8. Never unpack more than the member's declared size.

    Raises
    ------
    Malformed
        The member is damaged, encrypted or compressed by another method than deflate, or claims more bytes than deflate
        can make.
    """
    check_packing(member)
    file.seek(data_start(file, member))
    out = np.empty(member.size, np.uint8)
    window, crc, at = out.data, 0, 0
    for found in _pieces(file, member):
        if at + len(found) > member.size:
            raise Malformed(f"it has more than the {member.size} bytes that it claims")
        window[at : at + len(found)] = found
        crc, at = zlib.crc32(found, crc), at + len(found)
    if at != member.size:
        raise Malformed(f"it ends after {at} of {member.size} bytes")
    if crc != member.crc:
        raise Malformed("Bad CRC-32")
    return out


def check_packing(member: Member) -> None:
    """Refuse a member that cannot be read, or whose size is impossible."""
    if member.flags & ENCRYPTED:
        raise Malformed("it is encrypted")
    if member.method not in (STORED, DEFLATED):
        raise Malformed(f"it is compressed by the method {member.method}, which is neither none nor deflate")
    most = member.packed if member.method == STORED else member.packed * DEFLATE_RATIO
    if member.size > most or (member.method == STORED and member.size != member.packed):
        raise Malformed(f"it claims {member.size} bytes, and has {member.packed} in the file")


def _pieces(file: IO[bytes], member: Member) -> Iterator[bytes]:
    """Yield the bytes of a member, at most a chunk at a time."""
    unpack = zlib.decompressobj(-zlib.MAX_WBITS) if member.method == DEFLATED else None
    left = member.packed
    try:
        while left:
            piece = file.read(min(left, CHUNK))
            if not piece:
                raise Malformed("it is cut short")
            left -= len(piece)
            if unpack is None:
                yield piece
                continue
            while piece:
                yield unpack.decompress(piece, CHUNK)
                piece = unpack.unconsumed_tail
        if unpack is not None:
            yield unpack.flush()  # the last bytes, which deflate still holds
    except zlib.error as error:
        raise Malformed(str(error)) from error
