"""Reader of the zip that ``torch.export.save`` writes.

It does not trust the file: it unpickles nothing and checks every size.

torch stores members without compression, so no member is larger than the file. This is checked for all members before
any is read, so a hostile file cannot expand.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import re
import zlib
from typing import IO, Any

import numpy as np

from torchnp.files import strict_json
from torchnp.files.malformed import Malformed, shown
from torchnp.files.recognize import recognized, recognized_archive, recognized_directory, recognized_object
from torchnp.files.zip_directory import CHUNK, STORED, Member, check_packing, data_start, read_member, read_members
from torchnp.runtime.json_fields import ProgramError

ndarray = np.ndarray

MAX_TEXT = 1 << 28  # bytes of one JSON member
_ALIGNMENT = 16  # size of the largest element type; torch aligns members to 64 bytes
_DRIVE = re.compile(r"[A-Za-z]:")


class Archive:
    """The members of one archive, by name relative to the archive's root directory.

    Parameters
    ----------
    file : str, path or binary file
        The zip file.

    Raises
    ------
    ProgramError
        The file is not an archive of ``torch.export.save``, or a member is not as torch writes it.
    """

    def __init__(self, file: str | os.PathLike | IO[bytes]) -> None:
        self._owned = isinstance(file, (str, os.PathLike))
        self.label = os.fsdecode(file) if self._owned else str(getattr(file, "name", "the file"))  # type: ignore[arg-type]
        self._file = self._opened(file)
        self._map: mmap.mmap | None = None
        with contextlib.ExitStack() as on_error:
            on_error.callback(self.close)
            self.members = self._open()
            self._check_kind()
            on_error.pop_all()

    def _opened(self, file: Any) -> IO[bytes]:
        if not self._owned:
            if not hasattr(file, "read") or not hasattr(file, "seek"):
                raise TypeError(f"torchnp.load reads a file, and this is {recognized_object(file)}")
            if isinstance(file, io.TextIOBase):
                raise TypeError("torchnp.load reads a binary file, and this one is open as text: open it with 'rb'")
            return file
        try:
            return open(file, "rb")
        except IsADirectoryError:
            raise ProgramError(f"{self.label} is {recognized_directory(file)}") from None

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._owned:
            self._file.close()

    # ------------------------------------------------------------ checking members

    def _open(self) -> dict[str, Member]:
        try:
            listed = read_members(self._file)
        except Malformed as error:
            if what := recognized(self._file, self.label):
                raise ProgramError(f"{self.label} is {what}") from error
            raise ProgramError(f"{self.label} is no zip archive, or it is cut short: {error}") from error
        if not any(member.name.endswith("/archive_format") for member in listed):
            what = recognized_archive([member.name for member in listed])
            why = f"is {what}" if what else "has no member 'archive_format': torch.export.save did not write it"
            raise ProgramError(f"{self.label} {why}")
        members: dict[str, Member] = {}
        roots = set()
        for member in listed:
            root, name = self._name(member.name)
            roots.add(root)
            if name in members:
                raise ProgramError(f"{self.label} has two members of the name {shown(member.name)}")
            self._check_packing(member)
            members[name] = member
        if len(roots) != 1:
            raise ProgramError(f"{self.label} has {len(roots)} root directories; torch writes one")
        return members

    def _name(self, spelled: str) -> tuple[str, str]:
        root, _, name = spelled.partition("/")
        is_path = spelled.startswith("/") or "\\" in spelled or _DRIVE.match(spelled)
        if is_path or not spelled.isprintable() or not name or not {"", ".", ".."}.isdisjoint(spelled.split("/")):
            raise ProgramError(
                f"{self.label} has a member of the name {shown(spelled)}, which is no name that torch writes"
            )
        return root, name

    def _check_packing(self, member: Member) -> None:
        try:
            check_packing(member)
        except Malformed as error:
            raise ProgramError(f"member {shown(member.name)}: {error}") from error
        if member.method != STORED:
            raise ProgramError(f"member {shown(member.name)} is compressed; torch stores members as they are")

    def _check_kind(self) -> None:
        for name, known in (("archive_format", "pt2"), ("archive_version", "0"), ("byteorder", "little")):
            if name in self.members and (found := self.text(name, 64)) != known:
                raise ProgramError(f"{name} is {found[:40]!r}; torchnp reads {known!r}")

    # ------------------------------------------------------------ reading

    def _member(self, name: str) -> Member:
        if name not in self.members:
            raise ProgramError(f"{self.label} has no member {shown(name)}")
        return self.members[name]

    def raw(self, name: str) -> ndarray:
        """Return the bytes of a member, as a new array of uint8."""
        member = self._member(name)
        try:
            return read_member(self._file, member)
        except Malformed as error:
            raise ProgramError(f"member {shown(name)} is damaged: {error}") from error

    def mapped(self, name: str) -> ndarray:
        """Return the bytes of a member, memory-mapped copy-on-write: writes do not reach the file.

        A member is read instead of mapped if the caller opened the file, or if the member is misaligned.
        """
        member = self._member(name)
        if not self._owned:
            return self.raw(name)
        try:
            start = data_start(self._file, member)
        except Malformed as error:
            raise ProgramError(f"member {shown(name)} is damaged: {error}") from error
        if start % _ALIGNMENT:
            return self.raw(name)
        if self._map is None:
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
        window = np.frombuffer(self._map, np.uint8)[start : start + member.size]
        found = 0
        for at in range(0, window.size, CHUNK):
            found = zlib.crc32(window[at : at + CHUNK].data, found)
        if found != member.crc:
            raise ProgramError(f"member {shown(name)} is damaged: Bad CRC-32")
        return window

    def text(self, name: str, most: int = MAX_TEXT) -> str:
        """Return a member as text. It may have at most ``most`` bytes."""
        if self._member(name).size > most:
            raise ProgramError(f"member {shown(name)} is larger than {most} bytes")
        try:
            return self.raw(name).tobytes().decode()
        except UnicodeDecodeError as error:
            raise ProgramError(f"member {shown(name)} is no text: {error}") from error

    def json(self, name: str) -> Any:
        """Return a member parsed as JSON."""
        return parse_json(self.text(name), f"member {shown(name)}")


def parse_json(text: str, where: str) -> Any:
    """Parse a JSON text; ``where`` begins the error message."""
    try:
        return strict_json.parse_json(text, where)
    except Malformed as error:
        raise ProgramError(str(error)) from error
