"""Lines of several processes in one pipe."""

import os
from pathlib import Path

from gateway.logs.stderr import split_lines, write_to


def test_parts_end_with_lines_and_none_is_longer_but_a_single_line() -> None:
    lines = [b"a" * 3 + b"\n", b"b" * 4 + b"\n", b"c" * 30 + b"\n", b"d\n"]

    parts = list(split_lines(b"".join(lines), 10))

    assert parts == [lines[0] + lines[1], lines[2], lines[3]]
    assert list(split_lines(b"", 10)) == []


def test_a_file_and_a_pipe_get_all_of_it(tmp_path: Path) -> None:
    data = b"".join(b"%d\n" % number for number in range(5_000))
    with (tmp_path / "log").open("wb") as file:
        write_to(file.fileno(), data)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as end:
        write_to(writing, data)
        os.close(writing)
        assert end.read() == data
    assert (tmp_path / "log").read_bytes() == data
