"""What the log line of a request says, as JSON, as text and on a terminal."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from gateway.http.request_id import RequestIdentity
from routing.reports.request_lines import (
    RequestLines,
    build_json_line,
    build_plain_terminal_line,
    build_terminal_line,
    build_text_line,
)
from routing.serving.request.context import Attempt
from routing.serving.request.errors import ErrorFacts
from tests.routing.callers import CALLER
from tests.routing.reports.test_failure_writer import AT, report

KEY = "sk-rt-v1-au7...890"


def attempt(provider: str, status: int, **more: Any) -> Attempt:
    endpoint: Any = SimpleNamespace(provider=SimpleNamespace(name=provider))
    return Attempt(endpoint, None, started=1.0, status=status, **more)


FAILOVER = report(
    caller=replace(CALLER, key_label=KEY, workspace_slug="default"),
    identity=RequestIdentity("req-1"),
    generation_id="gen-1",
    requested_model="simulated/small",
    status=200,
    error=None,
    started=1.0,
    ended=1.0624,
    attempts=[
        attempt("Thrifty", 503, failure=SimpleNamespace()),
        attempt("Steady", 200, first_token=1.04),
    ],
    record={
        "provider_name": "Steady",
        "tokens_prompt": 12,
        "tokens_completion": 5,
        "charge_nano": 4400,
    },
)
REFUSED = report(
    caller=None,
    key_prefix="sk-rt-v1-abc",
    status=401,
    requested_model="",
    error=ErrorFacts("authentication_error", "invalid_key", "No such key", {}),
)
REPEATED = report(error=None, status=200, generation_id="gen-1", is_repeat=True)


def test_json_has_every_field() -> None:
    line = build_json_line(FAILOVER)

    found = json.loads(line)
    assert found.pop("process") > 0
    assert found == {
        "time": AT.isoformat(),
        "level": "INFO",
        "logger": "routing.requests",
        "message": "request",
        "request_id": "req-1",
        "generation_id": "gen-1",
        "account_id": str(UUID(int=1)),
        "workspace_id": str(UUID(int=2)),
        "workspace": "default",
        "key": KEY,
        "format": "chat",
        "streamed": False,
        "model": "simulated/small",
        "provider": "Steady",
        "attempts": 2,
        "route": "Thrifty 503 → Steady 200",
        "status": 200,
        "error_type": None,
        "reason": None,
        "first_token_ms": 40,
        "duration_ms": 62,
        "tokens_prompt": 12,
        "tokens_completion": 5,
        "charge_usd": 0.0000044,
        "is_repeat": False,
    }
    assert b'"charge_usd":0.0000044,' in line, "never an exponent"


def test_a_refusal_says_why_and_nulls_the_rest() -> None:
    found = json.loads(build_json_line(REFUSED))

    assert (found["status"], found["error_type"]) == (401, "authentication_error")
    assert (found["reason"], found["key"]) == ("invalid_key", "sk-rt-v1-abc...")
    nulls = ("generation_id", "account_id", "workspace", "provider", "route", "charge_usd")
    assert [found[name] for name in nulls] == [None] * len(nulls)


@pytest.mark.parametrize(
    ("build", "given", "line"),
    [
        (
            build_text_line,
            FAILOVER,
            "2026-05-04 10:42:07,000 INFO routing.requests: 200 simulated/small, "
            "Thrifty 503 → Steady 200, 62 ms (first token 40), 12 + 5 tokens, $0.0000044, "
            f"key {KEY}, workspace default, chat, gen-1, req-1\n",
        ),
        (
            build_text_line,
            REFUSED,
            "2026-05-04 10:42:07,000 INFO routing.requests: 401 -, invalid_key, 250 ms, "
            "key sk-rt-v1-abc..., chat\n",
        ),
        (
            build_text_line,
            REPEATED,
            "2026-05-04 10:42:07,000 INFO routing.requests: 200 acme/small, repeated, 250 ms, "
            "key -, chat, gen-1\n",
        ),
        (
            build_terminal_line,
            FAILOVER,
            "small  Thrifty \x1b[31m503\x1b[0m → Steady \x1b[32m200\x1b[0m  "
            "\x1b[2m62 ms\x1b[0m  $0.0000044\n",
        ),
    ],
)
def test_people_read_it_in_one_line(build: Any, given: Any, line: str) -> None:
    assert build(given).decode() == line


@pytest.mark.parametrize("build", [build_text_line, build_plain_terminal_line])
def test_a_caller_s_words_end_no_line_and_move_no_cursor(build: Any) -> None:
    line = build(report(requested_model="a\r\n2026 INFO \x1b[2J\u2028\u202e")).decode()

    assert line.endswith("\n")
    assert line[:-1].isprintable()


def test_a_batch_is_written_at_once() -> None:
    writes: list[bytes] = []

    RequestLines(build_json_line, writes.append).observe([FAILOVER, REFUSED])

    assert [each.count(b"\n") for each in writes] == [2]
