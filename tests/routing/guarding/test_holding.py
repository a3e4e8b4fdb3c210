"""Content filters hold the event loop for 20 ms at the most at a time, however long a text is.

Run as a script, in a process as the web's are, this prints how long they held it, seconds as JSON.
A greenlet asks for its turn every millisecond. It is late by what held the loop, and by what else
the machine had to do. Time in which this thread was ready and had no processor does not count. Nor
does time in which this process computed nothing.
"""

from gevent import monkey

if __name__ == "__main__":
    monkey.patch_all()

import base64
import json
import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import gevent
import pytest

from tests.support.bed import PROJECT

ROUNDS: Final = 8
HELD_MAX_S: Final = 0.02
_TICK_S: Final = 0.001
_SCAN_S: Final = 1.0
_FILTER = dict[str, str]
_Job = tuple[Any, tuple[Any, ...]]


class Ticker:
    def __init__(self) -> None:
        self.held_s = 0.0
        self._mine = Path("/proc/thread-self/schedstat").open()  # noqa: SIM115 - Kept open.
        gevent.spawn(self._tick)

    def _queued_s(self) -> float:
        self._mine.seek(0)
        return int(self._mine.read().split()[1]) / 1e9

    def _tick(self) -> None:
        while True:
            at, computed_s, queued_s = time.perf_counter(), time.process_time(), self._queued_s()
            gevent.sleep(_TICK_S)
            late_s = time.perf_counter() - at - _TICK_S - (self._queued_s() - queued_s)
            self.held_s = max(self.held_s, min(late_s, time.process_time() - computed_s))


def cases(size_bytes: int) -> dict[str, Callable[[], _Job]]:
    """Requests of that size and their filters."""
    never = "".join(random.Random(7).choices("ab", k=1 << 20))
    mail = "mail ada@example.org or so "
    slugs = ("email", "phone", "ssn", "credit-card", "ip-address", "regex-prompt-injection")
    nasty = {"pattern": "[ab]*a[ab]{200}c"}
    counted = {"pattern": "|".join(f"[^{chr(97 + n)}]{{900}}" for n in range(8))}

    def text(piece: str, action: str, *filters: str | _FILTER) -> Callable[[], _Job]:
        def make_job() -> _Job:
            content = piece * (size_bytes // len(piece.encode()))
            return _chat({"role": "user", "content": content}), _filters(action, filters)

        return make_job

    return {
        "redacted a hundred thousand times": text(mail + "or so " * 50, "redact", "email", "phone"),
        "redacted all over": text("a@b.cc ", "redact", "email"),
        "one redaction of all": text("abc", "redact", {"pattern": "[a-z]+"}),
        "a redaction of each character": text("abc", "redact", {"pattern": "[a-z]"}),
        "Greek": text("κόσμε ada@example.org ", "redact", "email", "phone"),
        "digits": text("4111 1111 1111 1112 ", "redact", "credit-card", "ssn", "phone"),
        "addresses": text("10.0.0.1 a::b ", "flag", "ip-address"),
        "nothing to be found": text("nothing to be found ", "block", *slugs),
        "a pattern that takes too long": text(never, "block", nasty),
        "patterns that are much in few characters": text("nothing ", "flag", counted),
        "many messages": partial(_many, mail, size_bytes),
        "calls of tools": partial(_calls, size_bytes),
        "a file": partial(_file, mail, size_bytes),
    }


def _many(mail: str, size_bytes: int) -> _Job:
    message = {"role": "user", "content": mail * 10}
    many = size_bytes // len(mail * 10)
    return _chat(*(dict(message) for _ in range(many))), _filters("redact", ["email"])


def _calls(size_bytes: int) -> _Job:
    arguments = json.dumps({f"k{n}": "ada@example.org" for n in range(1800)})
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": arguments + " "}}
        for n in range(size_bytes // len(arguments))
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return _chat({"role": "user", "content": "x"}, message), _filters("redact", ["email"])


def _file(mail: str, size_bytes: int) -> _Job:
    data = base64.b64encode((mail * (size_bytes * 3 // 4 // len(mail))).encode()).decode()
    file = {"filename": "a.txt", "file_data": f"data:text/plain;base64,{data}"}
    message = {"role": "user", "content": [{"type": "file", "file": file}]}
    return _chat(message), _filters("redact", ["email"])


def _chat(*messages: dict[str, Any]) -> Any:
    from routing.formats.chat.request import parse_chat

    return parse_chat({"model": "a/b", "messages": list(messages)}, session_header=None)


def _filters(action: Any, wanted: Any) -> tuple[Any, ...]:
    from accounts.guard_rules import FilterEntry, GuardrailFilter

    said = [each if isinstance(each, dict) else {"builtin": each} for each in wanted]
    entries = [FilterEntry(action, **each) for each in said]
    return tuple(GuardrailFilter(entry, "key", uuid.UUID(int=7)) for entry in entries)


def held_s(ticker: Ticker, make: Callable[[], _Job], *, at_once: int) -> float:
    """The best of some rounds; no more rounds than are needed."""
    best_s = float("inf")
    for _ in range(ROUNDS):
        jobs = [make() for _ in range(at_once)]
        gevent.sleep(0.01)
        ticker.held_s = 0.0
        gevent.joinall([gevent.spawn(_filter, job) for job in jobs], raise_error=True)
        gevent.sleep(2 * _TICK_S)
        best_s = min(best_s, ticker.held_s)
        if best_s <= HELD_MAX_S:
            break
    return best_s


def _filter(job: _Job) -> None:
    from gateway.http.errors import PayloadTooLarge
    from routing.guarding.filters import apply_filters

    try:
        apply_filters(*job, uuid.uuid4())
    except PayloadTooLarge:
        """As it is to be where filters take too long."""


def main(size_bytes: int, at_once: int, names: list[str]) -> None:
    import django

    django.setup()
    from gateway.server.worker import share_the_interpreter
    from routing.guarding import filters
    from routing.guarding.scanning import Deadline

    # Enough to see.
    vars(filters)["Deadline"] = partial(Deadline, _SCAN_S)
    share_the_interpreter()
    ticker = Ticker()
    told = {
        name: held_s(ticker, make, at_once=at_once)
        for name, make in cases(size_bytes).items()
        if not names or name in names
    }
    sys.stdout.write(json.dumps(told) + "\n")


MIB = 1 << 20
SMALL = ["redacted a hundred thousand times", "digits", "many messages"]


@pytest.mark.timed
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("size_bytes", "at_once", "names"),
    [
        pytest.param(32 * MIB, 1, [], id="32 MiB"),
        pytest.param(4 * MIB, 4, SMALL, id="of four accounts at a time"),
        # What is looked at without leaving the loop.
        pytest.param(4_000, 1, [], id="small"),
    ],
)
def test_filters_hold_nobody_up(size_bytes: int, at_once: int, names: list[str]) -> None:
    program = [sys.executable, "-m", "tests.routing.guarding.test_holding"]
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "gateway.settings"}
    how: Any = {"cwd": PROJECT, "env": env, "capture_output": True, "text": True, "timeout": 280}
    done = subprocess.run([*program, str(size_bytes), str(at_once), *names], check=False, **how)
    assert done.returncode == 0, done.stderr
    held_s = json.loads(done.stdout)
    assert held_s
    assert {name: each for name, each in held_s.items() if each > HELD_MAX_S} == {}


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
