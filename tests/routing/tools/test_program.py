"""What runs inside of a sandbox, looked at from outside."""

import json
import os
from pathlib import Path

import pytest

from routing.tools.sandbox import program


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(program, "WORK", tmp_path)
    return tmp_path


def test_a_name_that_is_no_utf8_is_listed_as_text(work: Path) -> None:
    (work / os.fsdecode(b"bad\xff")).touch()
    (work / "b\u00e4").touch()
    listed = program.list_files({"path": "."}, {})
    assert [each["path"] for each in listed["files"]] == ["bad\ufffd", "b\u00e4"]
    json.dumps(listed, ensure_ascii=False).encode()


def test_a_patch_is_made_inside(work: Path) -> None:
    (work / "a").write_text("x\nz\n")
    assert program.answer({"do": "patch", "path": "a", "diff": "-x\n+y", "bytes": 9}, {}) == {}
    assert (work / "a").read_text() == "y\nz\n"


@pytest.mark.parametrize(
    ("diff", "told"),
    [("-w", "The file has no such lines: 'w'"), ("+123456789", "A file has at most 9 characters")],
)
def test_a_patch_that_cannot_be_made_changes_nothing(work: Path, diff: str, told: str) -> None:
    (work / "a").write_text("x\n")
    asked = {"do": "patch", "path": "a", "diff": diff, "bytes": 9}
    assert program.answer(asked, {}) == {"error": told}
    assert (work / "a").read_text() == "x\n"


def test_memory_that_is_shared_counts(tmp_path: Path) -> None:
    thread = tmp_path / "task" / "1"
    thread.mkdir(parents=True)
    (thread / "status").write_text(
        "Name:\tx\nVmRSS:\t90 kB\nRssAnon:\t20 kB\nRssFile:\t40 kB\nRssShmem:\t30 kB\n"
    )
    assert program.mapped_bytes(tmp_path) == 50 * 1024
    assert program.mapped_bytes(tmp_path / "gone") == 0
