"""Files are whole or absent, whatever happens while they are written."""

import errno
import json
import os

import pytest

from outrider.core import files
from outrider.core.errors import OutriderError


def left(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), files.replacing(path) as fresh:
        fresh.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old" and left(tmp_path) == ["a.txt"]


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "d"
    path.mkdir()
    (path / "old").write_text("1")
    with files.replacing(path) as fresh:
        fresh.mkdir()
        (fresh / "new").write_text("2")
        assert left(path) == ["old"]
    assert left(path) == ["new"] and left(tmp_path) == ["d"]


def test_a_full_disk_is_one_line_and_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text("1")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OutriderError, match="No space left on device") as caught:
        files.write_json(path, {"a": 2})
    assert "untouched" in str(caught.value) and "\n" not in str(caught.value)
    assert path.read_text() == "1" and left(tmp_path) == ["a.json"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutriderError, match="cannot write"):
        files.write_text(tmp_path / "file" / "below.txt", "x")


def test_json_has_no_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(tmp_path / "a.json", {"x": float("nan")})
    assert left(tmp_path) == []


def test_reading_json_names_the_file(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(OutriderError, match=r"a\.json"):
        files.read_json(path)
    path.write_text("{")
    with pytest.raises(OutriderError, match=r"a\.json: not valid JSON"):
        files.read_json(path)
    files.write_json(path, [1, {"b": None}])
    assert files.read_json(path) == json.loads(path.read_text()) == [1, {"b": None}]


def test_sha256_of_known_content(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert files.sha256(path).startswith("ba7816bf8f01cfea414140de5dae2223")


def test_remove_takes_files_folders_and_nothing(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_text("")
    (tmp_path / "f").write_text("")
    for name in ("d", "f", "absent"):
        files.remove(tmp_path / name)
    assert left(tmp_path) == []
