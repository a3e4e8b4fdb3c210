"""load_test: ask a running gateway as many callers at once would, and print what it bears."""

import json
import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from django.core.management.base import CommandParser

from gateway.commands import JsonCommand, Misused, Refused
from gateway.home import run_in_progress
from gateway.http.jsonio import JsonObject
from gateway.run.ready import DEMO_MODEL

_CONNECTIONS: Final = "1,8,64"
# Each caller is a thread, and more of them than this measure this command.
_CALLERS_MAX: Final = 1_000
_PAUSE_S: Final = 0.1
_HEADS: Final = ("callers", "a second", "p50 ms", "p95 ms", "p99 ms", "first p50 ms", "failed")


class _Call(NamedTuple):
    """What every caller asks for."""

    url: SplitResult
    key: str
    body: bytes
    timeout_s: float

    def connect(self) -> HTTPConnection:
        kind = HTTPSConnection if self.url.scheme == "https" else HTTPConnection
        return kind(self.url.hostname or "", self.url.port, timeout=self.timeout_s)

    def send(self, connection: HTTPConnection) -> HTTPResponse:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        connection.request("POST", f"{self.url.path}/chat/completions", self.body, headers)
        return connection.getresponse()


class _Answer(NamedTuple):
    """One answer: its status or what went wrong, and milliseconds to its first byte and its end."""

    outcome: str
    first_ms: float
    whole_ms: float


class Command(JsonCommand):
    help = (
        "Ask a running gateway for short chat answers, from more and more callers at once, each of "
        "whom waits for one answer before asking again; then for streams that all run at the same "
        "time. Prints answers a second and percentiles of their times. The requests are real: they "
        "are charged, limits count them, and providers see them, so name a simulated or a local "
        "model. Within the home of a `make run` it needs no options."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", default="", help="base, as https://gateway.example/api/v1")
        parser.add_argument(
            "--key-file", default="", help="file with an API key; otherwise GATEWAY_API_KEY"
        )
        parser.add_argument("--model", default="", help="a model that may be asked without end")
        parser.add_argument(
            "--connections", default=_CONNECTIONS, help=f"callers at once; {_CONNECTIONS}"
        )
        parser.add_argument("--seconds", type=float, default=10, help="of each number; 10")
        parser.add_argument("--streams", type=int, default=0, help="streams at once at last; 0")
        parser.add_argument("--max-tokens", type=int, default=16, help="of each answer; 16")
        parser.add_argument("--timeout", type=float, default=60, help="seconds of silence; 60")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        call = _read_call(options)
        rounds = [
            _ask_for_a_while(call, callers, options["seconds"])
            for callers in _read_callers(options["connections"])
        ]
        streams = None
        if count := options["streams"]:
            streamed = json.loads(call.body) | {"stream": True}
            streams = _stream_at_once(call._replace(body=json.dumps(streamed).encode()), count)
        failed = sum(each["failed"] for each in (*rounds, *([streams] if streams else ())))
        return {"url": call.url.geturl(), "rounds": rounds, "streams": streams}, int(failed > 0)

    def lines(self, result: JsonObject) -> Iterable[str]:
        yield f"Asked {result['url']}"
        yield "  ".join(f"{head:>12}" for head in _HEADS)
        for each in result["rounds"]:
            yield _format_row(each)
        if result["streams"]:
            yield "Streams at once:"
            yield _format_row(result["streams"])
        for each in (*result["rounds"], *([result["streams"]] if result["streams"] else ())):
            if each["failed"]:
                outcomes = ", ".join(f"{name}: {n}" for name, n in each["outcomes"].items())
                yield f"{each['callers']} callers had failures: {outcomes}"


def _read_call(options: dict[str, Any]) -> _Call:
    """What to ask and where, from the options or the gateway that runs in this home."""
    facts: dict[str, Any] = {} if options["url"] else run_in_progress()
    key = os.environ.get("GATEWAY_API_KEY") or facts.get("api_key") or ""
    if options["key_file"]:
        try:
            key = Path(options["key_file"]).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Refused(f"The key cannot be read: {error}.") from None
    url, model = options["url"] or facts.get("base_url", ""), options["model"]
    if facts.get("simulator_url"):
        model = model or DEMO_MODEL
    if not (url and key and model):
        raise Misused(
            "Name the gateway with --url, a key with --key-file or GATEWAY_API_KEY, and a --model; "
            "or run it in the home of a `make run` with its simulated providers."
        )
    parts = urlsplit(url.rstrip("/"))
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Misused(f"--url is no address of HTTP: {url}")
    if not (options["seconds"] > 0 and options["timeout"] > 0 and options["max_tokens"] > 0):
        raise Misused("--seconds, --timeout and --max-tokens must be more than 0.")
    if not 0 <= options["streams"] <= _CALLERS_MAX:
        raise Misused(f"--streams must be between 0 and {_CALLERS_MAX:,}.")
    messages = [{"role": "user", "content": "Say a few words."}]
    body = {"model": model, "messages": messages, "max_tokens": options["max_tokens"]}
    return _Call(parts, key, json.dumps(body).encode(), options["timeout"])


def _read_callers(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise Misused(f"--connections must be numbers with commas between them: {text}")
    numbers = [int(word) for word in words]
    if not all(1 <= number <= _CALLERS_MAX for number in numbers):
        raise Misused(f"--connections must be between 1 and {_CALLERS_MAX:,}.")
    return numbers


def _ask_for_a_while(call: _Call, callers: int, seconds: float) -> JsonObject:
    started_at = time.monotonic()
    with ThreadPoolExecutor(callers) as threads:
        jobs = [
            threads.submit(lambda: list(_keep_asking(call, started_at + seconds)))
            for _ in range(callers)
        ]
        answers = [answer for job in jobs for answer in job.result()]
    return _sum_up(callers, answers, time.monotonic() - started_at)


def _stream_at_once(call: _Call, count: int) -> JsonObject:
    """One stream of each of that many callers."""
    started_at = time.monotonic()
    with ThreadPoolExecutor(count) as threads:
        answers = list(threads.map(lambda _: next(_keep_asking(call, math.inf)), range(count)))
    return _sum_up(count, answers, time.monotonic() - started_at)


def _keep_asking(call: _Call, until: float) -> Iterator[_Answer]:
    """Answers of one caller, on a connection that stays open while it can."""
    connection = call.connect()
    try:
        while (asked_at := time.monotonic()) < until:
            first_at = asked_at
            try:
                response = call.send(connection)
                piece = response.read1(1)
                first_at = time.monotonic()
                body = piece + response.read()
                outcome = str(response.status)
                # A stream that broke off says so in an event, with status 200.
                if outcome == "200" and b'"error":{' in body[-4096:]:
                    outcome = "error in the stream"
            except (OSError, HTTPException) as error:
                connection.close()
                outcome = type(error).__name__
                # A gateway that cannot be reached is not asked as fast as that fails.
                time.sleep(_PAUSE_S)
            ended_at = time.monotonic()
            yield _Answer(outcome, (first_at - asked_at) * 1e3, (ended_at - asked_at) * 1e3)
    finally:
        connection.close()


def _sum_up(callers: int, answers: Sequence[_Answer], seconds: float) -> JsonObject:
    """Times are of good answers only; null where there was none."""
    good = [answer for answer in answers if answer.outcome == "200"]
    whole = sorted(answer.whole_ms for answer in good)
    first = sorted(answer.first_ms for answer in good)
    return {
        "callers": callers,
        "answers_per_s": round(len(good) / seconds, 1),
        "p50_ms": _find_percentile(whole, 50),
        "p95_ms": _find_percentile(whole, 95),
        "p99_ms": _find_percentile(whole, 99),
        "first_byte_p50_ms": _find_percentile(first, 50),
        "failed": len(answers) - len(good),
        "outcomes": dict(Counter(answer.outcome for answer in answers)),
    }


def _find_percentile(ordered: Sequence[float], percent: int) -> float | None:
    if not ordered:
        return None
    return round(ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)], 1)


def _format_row(each: JsonObject) -> str:
    names = ("callers", "answers_per_s", "p50_ms", "p95_ms", "p99_ms", "first_byte_p50_ms")
    cells = ["-" if each[name] is None else f"{each[name]:,}" for name in names]
    return "  ".join(f"{cell:>12}" for cell in (*cells, str(each["failed"])))
