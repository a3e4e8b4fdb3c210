"""How many values a label has."""

from pathlib import Path
from typing import Any

from gateway.metrics import files
from gateway.metrics.files import LabelValues


def test_what_is_too_many_is_other_in_all_processes(settings: Any, tmp_path: Path) -> None:
    settings.GATEWAY_HOME = tmp_path
    files.folder.cache_clear()
    try:
        mine, theirs = LabelValues("model", most=3), LabelValues("model", most=3)

        assert [mine.limit(name) for name in ("a", "b", "line\nbreak")] == ["a", "b", "other"]
        assert [theirs.limit(name) for name in ("c", "d", "a")] == ["c", "other", "a"]
        assert [mine.limit(name) for name in ("d", "c")] == ["other", "c"]
    finally:
        files.folder.cache_clear()
