"""A zip archive in one canonical form: stored, sorted, fixed time, nothing between the members.

Any zip program reads it. This reader accepts only what this writer writes, header by header, so
that equal content means equal bytes, no two readers can see different members, and no declared
size is believed before the bytes are there. An archive comes from somewhere else.
"""

import os
import re
import stat
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from outrider.core.errors import OutriderError

MAX_BYTES = (1 << 31) - 1
"""Below this a zip needs no 64-bit extension; a protocol buffer holds no more either."""
MAX_MEMBERS = 1000
MAX_NAME = 255

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_LOCAL, _CENTRAL, _END = struct.Struct("<4s5H3I2H"), struct.Struct("<4s6H3I5H2I"), "<4s4H2IH"
_END_SIZE = struct.calcsize(_END)
_VERSION, _UNIX, _DATE = 20, 3 << 8, 0x21  # zip 2.0, made on Unix, 1 January 1980, 00:00
_MODE = (stat.S_IFREG | 0o644) << 16
_FLAG_ENCRYPTED = 0x1
_FIX = "Copy or export it again."


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    crc: int
    size: int
    offset: int

    def local(self) -> bytes:
        name = self.name.encode("ascii")
        sizes = (self.crc, self.size, self.size, len(name), 0)
        return _LOCAL.pack(b"PK\3\4", _VERSION, 0, 0, 0, _DATE, *sizes) + name

    def central(self) -> bytes:
        name = self.name.encode("ascii")
        sizes = (self.crc, self.size, self.size, len(name), 0, 0, 0, 0, _MODE, self.offset)
        made_by = _UNIX | _VERSION
        return _CENTRAL.pack(b"PK\1\2", made_by, _VERSION, 0, 0, 0, _DATE, *sizes) + name


def check_names(names: list[str], where: str) -> None:
    """Refuse names that are not plain and relative, that repeat, or are both file and folder.

    Raises:
        OutriderError: for the first such name.
    """
    if len(names) > MAX_MEMBERS:
        raise OutriderError(f"{len(names)} members, more than {MAX_MEMBERS}", where=where, fix=_FIX)
    for name in names:
        if len(name) > MAX_NAME or not _NAME.fullmatch(name):
            raise OutriderError(
                f"the member name {name[:MAX_NAME]!r} is not plain and relative",
                where=where,
                fix="Use letters, digits, '.', '_' and '-', with '/' between folders.",
            )
    known = {name.lower() for name in names}  # some file systems do not tell case apart
    if len(known) != len(names):
        raise OutriderError("a member occurs twice", where=where, fix=_FIX)
    for name in known:
        parts = name.split("/")
        if any("/".join(parts[:i]) in known for i in range(1, len(parts))):
            raise OutriderError(f"{name!r} lies inside another file", where=where, fix=_FIX)


def pack(members: Mapping[str, bytes], where: str) -> bytes:
    """The archive of some members; equal members give equal bytes.

    Raises:
        OutriderError: for a bad name, too many members, or 2 GiB and more.
    """
    check_names(list(members), where)
    overhead = sum(_LOCAL.size + _CENTRAL.size + 2 * len(name) for name in members)
    if overhead + _END_SIZE + sum(map(len, members.values())) > MAX_BYTES:
        raise OutriderError("the members have 2 GiB or more", where=where, fix="Leave some out.")
    parts, directory, offset = [], [], 0
    for name, content in sorted(members.items()):
        entry = _Entry(name, zlib.crc32(content), len(content), offset)
        parts += [entry.local(), content]
        directory.append(entry.central())
        offset += len(parts[-2]) + len(content)
    tail = b"".join(directory)
    end = struct.pack(_END, b"PK\5\6", 0, 0, len(directory), len(directory), len(tail), offset, 0)
    return b"".join([*parts, tail, end])


def unpack(handle: BinaryIO, where: str, limits: Mapping[str, int]) -> dict[str, bytes]:
    """Read an archive; the inverse of `pack`.

    Args:
        handle: a seekable binary file.
        where: for errors.
        limits: member -> most bytes that it may have.

    Raises:
        OutriderError: for anything that `pack` would not have written.
    """
    size = handle.seek(0, os.SEEK_END)
    if size > MAX_BYTES:
        raise OutriderError(f"{size} bytes, more than 2 GiB", where=where, fix=_FIX)
    entries = _directory(handle, size, where)
    members = {}
    for entry in entries:
        limit = limits.get(entry.name, MAX_BYTES)
        if entry.size > limit:
            raise OutriderError(
                f"{entry.name} has {entry.size} bytes, more than {limit}", where=where, fix=_FIX
            )
        handle.seek(entry.offset)
        header = entry.local()
        if handle.read(len(header)) != header:
            raise damaged(f"the two headers of {entry.name} disagree", where)
        content = handle.read(entry.size)
        if len(content) != entry.size or zlib.crc32(content) != entry.crc:
            raise damaged(f"the content of {entry.name} has another checksum", where)
        members[entry.name] = content
    return members


def damaged(why: str, where: str) -> OutriderError:
    """The error for a file that is not what it should be."""
    return OutriderError(
        f"damaged or truncated, or no bundle at all ({why})", where=where, fix=_FIX
    )


def _directory(handle: BinaryIO, size: int, where: str) -> list[_Entry]:
    """The members, after everything that can be judged without reading them."""
    if size < _END_SIZE:
        raise damaged(f"{size} bytes", where)
    handle.seek(size - _END_SIZE)
    magic, *disks, count, total, length, start, comment = struct.unpack(
        _END, handle.read(_END_SIZE)
    )
    if magic != b"PK\5\6" or comment or any(disks) or count != total:
        raise damaged("it does not end as a bundle does", where)
    if count > MAX_MEMBERS:
        raise OutriderError(f"{count} members, more than {MAX_MEMBERS}", where=where, fix=_FIX)
    if start + length != size - _END_SIZE or length > count * (_CENTRAL.size + MAX_NAME):
        raise damaged("its directory is not where it says", where)
    handle.seek(start)
    entries = _entries(handle.read(length), count, where)
    check_names([entry.name for entry in entries], where)
    _check_layout(entries, start, where)
    return entries


def _entries(directory: bytes, count: int, where: str) -> list[_Entry]:
    entries, position = [], 0
    for _ in range(count):
        header = directory[position : position + _CENTRAL.size]
        if len(header) < _CENTRAL.size:
            raise damaged("its directory is cut off", where)
        values = _CENTRAL.unpack(header)
        flags, method, crc, packed, size, length = (values[i] for i in (3, 4, 7, 8, 9, 10))
        mode, offset = values[15:]
        raw = directory[position + _CENTRAL.size : position + _CENTRAL.size + length]
        name = raw.decode("latin-1")  # a name of other bytes is refused with all that is not plain
        entry = _Entry(name, crc, size, offset)
        _check_kind(name, method, flags, mode, where)
        check_names([name], where)
        if packed != size or directory[position : position + len(entry.central())] != (
            entry.central()
        ):
            raise damaged(f"{name} has a header that no bundle has", where)
        entries.append(entry)
        position += _CENTRAL.size + length
    if position != len(directory):
        raise damaged("its directory has more than its members", where)
    return entries


def _check_kind(name: str, method: int, flags: int, mode: int, where: str) -> None:
    if method != 0 or flags & _FLAG_ENCRYPTED:
        raise OutriderError(
            f"{name!r} is compressed or encrypted; bundles store members as they are",
            where=where,
            fix=_FIX,
        )
    if stat.S_IFMT(mode >> 16) not in (0, stat.S_IFREG):
        raise OutriderError(f"{name!r} is not a plain file", where=where, fix=_FIX)


def _check_layout(entries: list[_Entry], end: int, where: str) -> None:
    """Members follow each other in the order of their names, without gap or overlap."""
    position = 0
    for entry in entries:
        if entry.offset != position:
            raise damaged(f"{entry.name} is not where it belongs", where)
        position += len(entry.local()) + entry.size
    if position != end:
        raise damaged("members claim more or fewer bytes than the file has", where)
    names = [entry.name for entry in entries]
    if names != sorted(names):
        raise damaged("its members are not sorted", where)
