"""The zip that ``torch.export.save`` writes, read with suspicion: nothing in it is unpickled, and no size is believed.

torch stores its members without compression, so that no member is larger than the file. That is checked of all members
together before one of them is read, which leaves a hostile file nothing to grow by.
"""

from __future__ import annotations

import contextlib
import io
import json
import mmap
import os
import re
import struct
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from torchnp.runtime.fields import ProgramError

ndarray = np.ndarray

MAX_MEMBERS = 1_000_000
MAX_TEXT = 1 << 28  # bytes of one JSON member
_CHUNK = 1 << 20
_LENGTHS = 26  # the place in a member's header of the lengths of its name and of what torch pads it with
_ALIGNMENT = 16  # bytes of the largest number; torch lets members begin at multiples of 64
# What zipfile raises of a damaged file.
_DAMAGE = (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, OverflowError, RuntimeError, ValueError)
_DRIVE = re.compile(r"[A-Za-z]:")


class Archive:
    """The members of one file by their names below the archive's root directory.

    Parameters
    ----------
    file : str, path or binary file
        Where the zip is.

    Raises
    ------
    ProgramError
        It is no archive of ``torch.export.save``, or one of its members is not what torch writes.
    """

    def __init__(self, file: str | os.PathLike | IO[bytes]) -> None:
        self._owned = not hasattr(file, "read")
        self._file: IO[bytes] = open(file, "rb") if self._owned else file  # type: ignore[arg-type,assignment]  # noqa: SIM115
        self.label = os.fspath(file) if self._owned else str(getattr(file, "name", "the file"))  # type: ignore[arg-type]
        self._map: mmap.mmap | None = None
        with contextlib.ExitStack() as on_error:
            on_error.callback(self.close)
            self._zip, self.members = self._open()
            self._check_kind()
            on_error.pop_all()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._owned:
            self._file.close()

    # ------------------------------------------------------------ what is there

    def _open(self) -> tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]:
        length = self._file.seek(0, io.SEEK_END)
        try:
            opened = zipfile.ZipFile(self._file)
        except (*_DAMAGE, struct.error) as error:
            raise ProgramError(f"{self.label} is no zip archive, or it is cut short: {error}") from error
        infos = opened.infolist()
        if len(infos) > MAX_MEMBERS:
            raise ProgramError(f"{self.label} has {len(infos)} members, more than {MAX_MEMBERS}")
        members: dict[str, zipfile.ZipInfo] = {}
        roots = set()
        for info in infos:
            root, name = self._name(info)
            roots.add(root)
            if name in members:
                raise ProgramError(f"{self.label} has two members of the name {info.filename!r}")
            self._check_size(info, length)
            members[name] = info
        if len(roots) != 1:
            raise ProgramError(f"{self.label} has {len(roots)} root directories; torch writes one")
        if (total := sum(info.file_size for info in infos)) > length:
            raise ProgramError(f"{self.label} has {length} bytes, and its members claim {total}: they overlap")
        return opened, members

    def _name(self, info: zipfile.ZipInfo) -> tuple[str, str]:
        spelled = info.orig_filename
        root, _, name = spelled.partition("/")
        parts = spelled.split("/")
        is_path = spelled.startswith("/") or "\\" in spelled or "\0" in spelled or _DRIVE.match(spelled)
        if is_path or not name or not all(part not in ("", ".", "..") for part in parts):
            raise ProgramError(f"{self.label} has a member of the name {spelled!r}, which is no name that torch writes")
        return root, name

    def _check_size(self, info: zipfile.ZipInfo, length: int) -> None:
        if info.flag_bits & 1:
            raise ProgramError(f"member {info.filename!r} is encrypted")
        if info.compress_type != zipfile.ZIP_STORED:
            raise ProgramError(f"member {info.filename!r} is compressed; torch stores members as they are")
        if info.compress_size != info.file_size or info.header_offset + info.file_size > length:
            raise ProgramError(
                f"member {info.filename!r} claims {info.file_size} bytes ({info.compress_size} in the file), "
                f"of a file of {length}"
            )

    def _check_kind(self) -> None:
        if "archive_format" not in self.members:
            if "data.pkl" in self.members:
                raise ProgramError(f"{self.label} was written by torch.save: torchnp.load reads torch.export.save")
            if "serialized_exported_program.json" in self.members:
                raise ProgramError(f"{self.label} was exported by a torch before 2.8: save it again with torch 2.13")
            raise ProgramError(f"{self.label} has no member 'archive_format': torch.export.save did not write it")
        for name, known in (("archive_format", "pt2"), ("archive_version", "0"), ("byteorder", "little")):
            if name in self.members and (found := self.text(name)) != known:
                raise ProgramError(f"{name} is {found[:40]!r}; torchnp reads {known!r}")

    # ------------------------------------------------------------ reading

    def raw(self, name: str) -> ndarray:
        """The bytes of a member, as a new array of uint8."""
        info = self.members.get(name)
        if info is None:
            raise ProgramError(f"{self.label} has no member {name!r}")
        out = np.empty(info.file_size, np.uint8)
        try:
            with self._zip.open(info) as member:
                at = 0
                while piece := member.read(_CHUNK):  # the last one checks the sum over all
                    out[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
                    at += len(piece)
        except (*_DAMAGE, struct.error) as error:
            raise ProgramError(f"member {name!r} is damaged: {error}") from error
        if at != info.file_size:
            raise ProgramError(f"member {name!r} ends after {at} of {info.file_size} bytes")
        return out

    def mapped(self, name: str) -> ndarray:
        """The bytes of a member, as a window of the file: writes to it stay in this process, and the file as it is.

        A file that was opened elsewhere is read, and so is a member that does not begin where numbers may.
        """
        info = self.members.get(name)
        if info is None or not self._owned:
            return self.raw(name)
        start = self._start(name, info)
        if start % _ALIGNMENT:
            return self.raw(name)
        if self._map is None:
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
        window = np.frombuffer(self._map, np.uint8)[start : start + info.file_size]
        found = 0
        for at in range(0, window.size, _CHUNK):
            found = zlib.crc32(window[at : at + _CHUNK].data, found)
        if window.size != info.file_size or found != info.CRC:
            raise ProgramError(f"member {name!r} is damaged: Bad CRC-32")
        return window

    def _start(self, name: str, info: zipfile.ZipInfo) -> int:
        """Where the bytes of a member begin: behind a header whose length it says itself."""
        try:
            self._zip.open(info).close()  # compares the header with the directory
            self._file.seek(info.header_offset + _LENGTHS)
            lengths = struct.unpack("<HH", self._file.read(4))
        except (*_DAMAGE, struct.error) as error:
            raise ProgramError(f"member {name!r} is damaged: {error}") from error
        return info.header_offset + _LENGTHS + 4 + sum(lengths)

    def text(self, name: str) -> str:
        """A member that is text."""
        if name in self.members and self.members[name].file_size > MAX_TEXT:
            raise ProgramError(f"member {name!r} is larger than {MAX_TEXT} bytes")
        try:
            return self.raw(name).tobytes().decode()
        except UnicodeDecodeError as error:
            raise ProgramError(f"member {name!r} is no text: {error}") from error

    def json(self, name: str) -> Any:
        """A member that is JSON."""
        return parse_json(self.text(name), f"member {name!r}")


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON text; ``where`` opens the message of what is wrong with it."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except ValueError as error:
        raise ProgramError(f"{where} is no JSON, or it is cut short: {error}") from error
    except RecursionError as error:
        raise ProgramError(f"{where} is nested too deeply") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"two values of the name {next(n for n in names if names.count(n) > 1)!r}")
    return found
