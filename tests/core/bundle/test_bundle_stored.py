"""The canonical zip: what it writes any zip program reads, and it reads nothing else."""

import io
import stat
import struct
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.core.bundle import stored
from outrider.core.errors import OutriderError

MEMBERS = {"b/inner.txt": b"second", "a.bin": bytes(range(40)), "empty": b""}
PACKED = stored.pack(MEMBERS, "here")


def read(data, limits=None):
    return stored.unpack(io.BytesIO(data), "here", limits or {})


def check_refused(data, *words):
    with pytest.raises(OutriderError) as caught:
        read(data)
    text = str(caught.value)
    assert "\n" not in text and len(text) < 600
    for word in words:
        assert word in text
    return text


def zipped(entries, mode=stored._MODE, method=zipfile.ZIP_STORED):
    """An archive by the standard library: (name, content), in this order."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.external_attr, info.create_system, info.compress_type = mode, 3, method
            info.filename = name  # what ZipInfo would have normalised away
            archive.writestr(info, content)
    return buffer.getvalue()


def test_the_standard_library_reads_what_is_written():
    with zipfile.ZipFile(io.BytesIO(PACKED)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == sorted(MEMBERS)
        assert {name: archive.read(name) for name in archive.namelist()} == MEMBERS
        for entry in archive.infolist():
            assert entry.date_time == (1980, 1, 1, 0, 0, 0)
            assert entry.compress_type == zipfile.ZIP_STORED
            assert stat.S_IMODE(entry.external_attr >> 16) == 0o644


def test_the_standard_library_writes_the_same_bytes():
    assert zipped(sorted(MEMBERS.items())) == PACKED


NAMES = st.from_regex(r"[a-z0-9_][a-z0-9._-]{0,6}", fullmatch=True)


@given(st.dictionaries(NAMES, st.binary(max_size=50), max_size=6))
def test_reading_inverts_writing_whatever_the_order(members):
    data = stored.pack(members, "here")
    assert read(data) == members
    assert stored.pack(dict(reversed(members.items())), "here") == data


def test_truncated_anywhere():
    for length in range(len(PACKED)):
        check_refused(PACKED[:length], "here: ")


def test_every_single_flipped_bit_is_refused():
    for position in range(len(PACKED)):
        for bit in range(8):
            changed = bytearray(PACKED)
            changed[position] ^= 1 << bit
            check_refused(bytes(changed))


@settings(max_examples=300)
@given(st.data())
def test_no_edit_gives_anything_but_an_error_or_the_same_members(data):
    start = data.draw(st.integers(0, len(PACKED)))
    stop = data.draw(st.integers(start, min(len(PACKED), start + 60)))
    changed = PACKED[:start] + data.draw(st.binary(max_size=60)) + PACKED[stop:]
    try:
        assert read(changed) == MEMBERS and changed == PACKED
    except OutriderError as error:
        assert type(error) is OutriderError and "\n" not in str(error)


@given(st.binary(max_size=200))
def test_noise_is_refused(data):
    check_refused(data)


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/../../x",
        "/abs",
        "C:\\x",
        "C:x",
        "a\\b",
        "a//b",
        "./a",
        "a/",
        ".hidden",
        "",
        "naïve",
        "a b",
        "a\x00b",
        "a\n",
        "x" * 256,
    ],
)
def test_names_outside_or_strange(name):
    check_refused(zipped([(name, b"x")]), "" if len(name) > 255 else "not plain and relative")
    with pytest.raises(OutriderError, match="not plain and relative"):
        stored.pack({name: b"x"}, "here")


def test_repeated_names():
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = zipped([("a", b"1"), ("a", b"2")])
    check_refused(data, "occurs twice")
    check_refused(zipped([("A", b"1"), ("a", b"2")]), "occurs twice")


def test_a_file_that_is_a_folder_too():
    check_refused(zipped([("a", b"1"), ("a/b", b"2")]), "inside another file")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFCHR])
def test_entries_that_are_no_files(kind):
    check_refused(zipped([("link", b"/etc/passwd")], mode=(kind | 0o777) << 16), "not a plain file")


def test_a_compressed_bomb_is_not_unpacked():
    bomb = zipped([("zeros", bytes(1 << 22))], method=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 10_000
    check_refused(bomb, "compressed")


def test_members_not_sorted():
    check_refused(zipped([("b", b"1"), ("a", b"2")]), "not sorted")


@pytest.mark.parametrize("before, after", [(b"#!/bin/sh\n", b""), (b"", b"more"), (b"x", b"y")])
def test_bytes_that_belong_to_no_member(before, after):
    check_refused(before + PACKED + after, "damaged")


def test_bytes_hidden_between_members_and_the_directory():
    end = len(PACKED) - 22
    _, start = struct.unpack("<2I", PACKED[end + 12 : end + 20])
    tail = PACKED[:end][start:] + PACKED[end : end + 16]
    hidden = PACKED[:start] + b"hidden" + tail + struct.pack("<IH", start + 6, 0)
    with zipfile.ZipFile(io.BytesIO(hidden)) as archive:
        assert archive.namelist() == sorted(MEMBERS)  # others do not notice
    check_refused(hidden, "more or fewer bytes")


def test_a_local_header_that_tells_another_story():
    """The directory is what zipfile believes; streaming readers believe the local header."""
    position = PACKED.index(b"PK\3\4") + 30
    assert PACKED[position : position + 5] == b"a.bin"
    changed = PACKED[:position] + b"z" + PACKED[position + 1 :]
    check_refused(changed, "headers")


def claim(count=None, length=None, size=None):
    """The archive with numbers of its end record or first directory entry replaced."""
    changed = bytearray(PACKED)
    end = len(PACKED) - 22
    start = struct.unpack("<I", PACKED[end + 16 : end + 20])[0]
    if count is not None:
        changed[end + 8 : end + 12] = struct.pack("<2H", count, count)
    if length is not None:
        changed[end + 12 : end + 20] = struct.pack("<2I", length, end - length)
    if size is not None:
        changed[start + 20 : start + 28] = struct.pack("<2I", size, size)
    return bytes(changed)


def test_declared_numbers_are_not_believed():
    check_refused(claim(count=65535), "65535 members")
    check_refused(claim(count=1000), "cut off")
    check_refused(claim(count=2), "more than its members")
    check_refused(claim(length=len(PACKED) - 22))
    check_refused(claim(size=0xFFFFFFFF), "where it belongs")
    check_refused(claim(size=39), "where it belongs")


def test_sixty_four_bit_extensions_are_not_followed():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, archive.open("a", "w", force_zip64=True) as f:
        f.write(b"x")
    check_refused(buffer.getvalue())


def test_too_many_members():
    many = {f"m{i}": b"" for i in range(stored.MAX_MEMBERS + 1)}
    with pytest.raises(OutriderError, match="1001 members"):
        stored.pack(many, "here")
    check_refused(zipped(sorted(many.items())), "1001 members")


def test_a_limit_is_checked_before_the_member_is_read():
    assert read(PACKED, {"a.bin": 40}) == MEMBERS
    with pytest.raises(OutriderError, match=r"a\.bin has 40 bytes, more than 39"):
        read(PACKED, {"a.bin": 39})


def test_a_huge_file_is_refused_by_its_size(tmp_path):
    path = tmp_path / "huge"
    with path.open("wb") as handle:
        handle.truncate(stored.MAX_BYTES + 1)  # sparse: no such bytes exist
    with path.open("rb") as handle, pytest.raises(OutriderError, match="more than 2 GiB"):
        stored.unpack(handle, "here", {})
