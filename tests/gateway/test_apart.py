"""Programs beside the process that serves: what they are told and tell, and that they end."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.apart import Apart, Ended, TookTooLong

# It says what it is told, so frames come back.
CAT = "/bin/cat"


def soon() -> float:
    return time.monotonic() + 30


def children() -> set[str]:
    """Programs that this process started and that run."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and fields[0] != "Z":
                found.add((place / "comm").read_text().strip())
        except OSError:
            continue
    return found


@given(st.lists(st.binary(max_size=100), max_size=5))
def test_frames_come_whole_whatever_pieces_they_were_sent_in(pieces: list[bytes]) -> None:
    program = Apart([CAT], {})
    try:
        program.send_pieces(pieces, sum(map(len, pieces)), soon())
        program.send(b"next", soon())

        assert program.receive(1000, soon()) == b"".join(pieces)
        assert program.receive(1000, soon()) == b"next"
    finally:
        program.close()


def test_what_does_not_come_in_time_is_not_waited_for() -> None:
    program = Apart([CAT], {})
    with pytest.raises(TookTooLong):
        program.receive(1000, time.monotonic() + 0.05)
    program.close()


def test_a_program_that_is_full_is_not_waited_for() -> None:
    program = Apart(["/bin/sleep", "60"], {})
    with pytest.raises(TookTooLong):
        program.send(b"x" * 10_000_000, time.monotonic() + 0.2)
    program.close()


def test_a_frame_that_is_too_long_is_none() -> None:
    program = Apart([CAT], {})
    program.send(b"x" * 101, soon())
    with pytest.raises(Ended):
        program.receive(100, soon())
    program.close()


def test_a_program_that_has_ended_says_nothing() -> None:
    program = Apart(["/bin/true"], {})
    with pytest.raises(Ended):
        program.receive(100, soon())
    program.close()
    program.close()


def test_a_program_that_is_not_there_is_no_program() -> None:
    with pytest.raises(OSError, match="No such file"):
        Apart(["/nowhere/program"], {})


def test_its_environment_is_what_it_is_given() -> None:
    program = Apart(["/bin/sh", "-c", "printf '\\0\\0\\0\\3'; printf $A"], {"A": "abc"})
    assert program.receive(100, soon()) == b"abc"
    program.close()


@pytest.mark.parametrize("how", ["closed", "forgotten"])
def test_it_ends_with_its_owner(how: str) -> None:
    program = Apart(["/bin/sleep", "59"], {})
    assert "sleep" in children()

    if how == "closed":
        program.close()
    del program

    until = time.monotonic() + 5
    while "sleep" in children() and time.monotonic() < until:
        pass
    assert "sleep" not in children()
