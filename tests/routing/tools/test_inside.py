"""What runs inside of a sandbox, looked at from outside."""

import json
import os
from pathlib import Path

import pytest

from routing.tools import inside


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(inside, "WORK", tmp_path)
    return tmp_path


def test_a_name_that_is_no_utf8_is_listed_as_text(work: Path) -> None:
    (work / os.fsdecode(b"bad\xff")).touch()
    (work / "b\u00e4").touch()

    listed = inside.listed({"path": "."}, {})

    assert [each["path"] for each in listed["files"]] == ["bad\ufffd", "b\u00e4"]
    json.dumps(listed, ensure_ascii=False).encode()
