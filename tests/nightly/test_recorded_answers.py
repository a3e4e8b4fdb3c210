"""Answers of real providers, and small ones like them: nothing is lost but what is named.

`GATEWAY_RECORDED_ANSWERS` names a file of JSON lines, xz-packed or not, each with `id`, `kind` (the
wire), `stream`, `status` and `body` as sent. `GATEWAY_REPLAY_REPORT` names a file for the list of
all differences.
"""

import collections
import json
import lzma
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import openai
import pytest
import requests
from anthropic.types import Message, RawMessageStreamEvent
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import ValidationError

from tests.faults.bench import as_yaml, endpoint, model, provider
from tests.nightly.differences import ODD, REASONS, Difference, Reason
from tests.nightly.same_format import losses
from tests.nightly.small_answers import small_answers
from tests.nightly.wire_readers import READERS, stream_events
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.raw_upstream import EVENTS, JSON, Script, Stage, Visit, head
from tests.support.speakers import SPEAKERS

SOURCE = os.environ.get("GATEWAY_RECORDED_ANSWERS", "")
REPORT = os.environ.get("GATEWAY_REPLAY_REPORT", "")
FORMATS = {"chat": "openai", "messages": "anthropic", "responses": "responses"}
KINDS = tuple(READERS)
PARAMETERS = ["max_tokens", "reasoning", "include_reasoning", "tools", "tool_choice", "logprobs"]
# Asked for, so that the answer may hold it.
REASONING: dict[str, dict[str, Any]] = {
    "chat": {"reasoning": {"enabled": True}},
    "messages": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "responses": {"reasoning": {"effort": "medium", "summary": "auto"}},
}

pytestmark = pytest.mark.thorough


def recordings() -> list[dict[str, Any]]:
    data = Path(SOURCE).read_bytes()
    text = lzma.decompress(data) if SOURCE.endswith(".xz") else data
    return [json.loads(line) for line in text.decode().splitlines()]


@pytest.fixture(scope="module")
def replay(stores: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Replay"]:
    folder = tmp_path_factory.mktemp("replay")
    with Stage() as stage, StartGateway(stores, folder) as starter:
        providers = [provider(kind, f"{stage.url}/{kind}/v1", kind=kind) for kind in KINDS]
        size = {"context_length": 10_000_000}
        models = [
            model(f"recorded/{kind}", endpoint(
                kind, kind, max_completion_tokens=100_000, supported_parameters=PARAMETERS
            ), **size)
            for kind in KINDS
        ]  # fmt: skip
        always = {"ROUTER_OUTAGE_WINDOW_SECONDS": "0.001", "ROUTER_RETRY_FLOOR": "100000"}
        server = starter.with_catalogue(as_yaml(providers, models), **always)
        account = seed_account(server, credits_usd="100000")
        yield Replay(server.root_url, account.api_key, stage)
        server.check_books()


class Replay:
    """A gateway in front of an upstream that says what was recorded."""

    def __init__(self, url: str, key: str, stage: Stage) -> None:
        self._url = url
        self._stage = stage
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {key}"

    def ask(self, recording: dict[str, Any], format_: str) -> requests.Response:
        """Ask in a format; the upstream says this recording."""
        kind, speaker = recording["kind"], SPEAKERS[format_]
        self._stage.play(kind, _said_again(recording))
        body = speaker.body(f"recorded/{kind}", speaker.user("Hello"), cap=20_000)
        body |= {"stream": recording["stream"], **REASONING[format_]}
        return self._session.post(self._url + speaker.path, json=body, timeout=60)


def _said_again(recording: dict[str, Any]) -> Script:
    data = recording["body"].encode()
    kind = EVENTS if recording["stream"] else JSON

    def script(visit: Visit) -> None:
        status = b"HTTP/1.1 %d X" % recording["status"]
        start = head(kind, b"Content-Length: %d" % len(data))
        visit.send(start.replace(b"HTTP/1.1 200 OK", status) + data)

    return script


def test_nothing_of_small_answers_is_lost_that_is_not_named(replay: Replay) -> None:
    check(replay, small_answers())


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not SOURCE, reason="GATEWAY_RECORDED_ANSWERS is not set")
def test_nothing_of_recordings_is_lost_that_is_not_named(replay: Replay) -> None:
    reasons = check(replay, recordings())
    stale = [reason.text for reason in REASONS if reason not in reasons]
    assert not stale


def check(replay: Replay, answers: Iterable[dict[str, Any]]) -> list[Reason | None]:
    """Ask for each in every format: all differences are named. The reasons of all of them."""
    found = [
        difference
        for answer in answers
        for format_ in FORMATS
        for difference in differences(answer, format_, replay.ask(answer, format_))
    ]
    reasons = [next((r for r in (*REASONS, ODD) if r.holds(each)), None) for each in found]
    if REPORT:
        _write_report(found, reasons)
    unnamed = [each for each, reason in zip(found, reasons, strict=True) if reason is None]
    assert not unnamed, unnamed[:20]
    return reasons


def differences(
    recording: dict[str, Any], format_: str, response: requests.Response
) -> Iterator[Difference]:
    kind, stream, text = recording["kind"], recording["stream"], response.content.decode()

    def difference(field: str, recorded: Any, got: Any) -> Difference:
        return Difference(recording["id"], kind, format_, stream, field, recorded, got)

    if recording["status"] != response.status_code:
        yield difference("status", recording["status"], f"{response.status_code} {text[:600]}")
        return
    if response.status_code != 200:
        told = SPEAKERS[format_].read_error(response.json())
        message = json.loads(recording["body"])["error"]["message"]
        if told[2] != message:
            yield difference("message", message, told[2])
        return
    expected = READERS[kind](recording["body"], stream)
    try:
        got = READERS[FORMATS[format_]](text, stream)
    except Exception as error:  # noqa: BLE001 - Whatever a client would raise of it.
        yield difference("unreadable", "", repr(error))
        return
    # A failure has neither an end nor counts of its own.
    names = ("text", "reasoning", "calls", "failure") if expected.failure else vars(expected)
    for name in names:
        one, other = getattr(expected, name), getattr(got, name)
        if _plain(one) != _plain(other):
            yield difference(name, one, other)
    known = set[str]()
    if FORMATS[format_] == kind:
        known.update(_client_problems(format_, stream, recording["body"]))
    for problem in set(_client_problems(format_, stream, text)) - known:
        yield difference("client", "", problem)
    if FORMATS[format_] == kind:
        yielded = collections.Counter[str]()
        for path, one, other in losses(kind, stream, recording["body"], text):
            yielded[path] += 1
            if yielded[path] == 1:
                yield difference(path, one, other)


def _plain(value: Any) -> Any:
    """White space between parts of one text is the format's own."""
    return "".join(value.split()) if isinstance(value, str) else value


WHOLE: dict[str, Any] = {"chat": ChatCompletion, "messages": Message, "responses": Response}


def _by_type(union: Any) -> dict[str, Any]:
    """The members of a union of events, each by the word in its `type`."""
    members = get_args(get_args(union)[0])
    return {get_args(each.model_fields["type"].annotation)[0]: each for each in members}


EVENTS_BY_TYPE = {
    "messages": _by_type(RawMessageStreamEvent),
    "responses": _by_type(ResponseStreamEvent),
}


def _client_problems(format_: str, stream: bool, text: str) -> Iterator[str]:
    """What the official client's own types and stream helpers say of an answer."""
    values = stream_events(text) if stream else [json.loads(text)]
    for value in values:
        kind = value.get("type")
        if "error" in value and stream:
            continue
        if not stream:
            shape = WHOLE[format_]
        elif format_ == "chat":
            shape = ChatCompletionChunk
        else:
            shape = EVENTS_BY_TYPE[format_].get(kind)
        if shape is None:
            continue  # Clients pass over events they do not know.
        try:
            shape.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            yield f"{kind} {first['loc']} {first['msg']}"
    if stream and format_ == "chat":
        yield from _helper_problems(values)


def _helper_problems(chunks: list[dict[str, Any]]) -> Iterator[str]:
    state = ChatCompletionStreamState(input_tools=openai.omit, response_format=openai.omit)
    try:
        for chunk in chunks:
            if "error" in chunk:
                return
            state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
        return
    except Exception as error:  # noqa: BLE001 - Whatever it raises is what users see.
        yield f"the stream helper: {error!r}"
        return
    final = state.current_completion_snapshot
    for choice in final.choices:
        if str(choice.message.role) != "assistant":
            yield f"the stream helper: role {choice.message.role}"


def _write_report(found: list[Difference], reasons: list[Any]) -> None:
    lines = []
    counted = collections.Counter[str]()
    for each, reason in zip(found, reasons, strict=True):
        named = reason.text if reason else "UNNAMED"
        way = f"{each.kind} -> {each.format} {'stream' if each.stream else 'whole'}"
        counted[f"{named[:60]:60} | {way} | {each.field}"] += 1
        mark = "UNNAMED" if reason is None else "named  "
        lines.append(
            f"{mark} {way} | {each.field} | {each.recording}\n"
            f"    recorded: {str(each.recorded)[:400]!r}\n    got:      {str(each.got)[:400]!r}\n"
        )
    summary = [f"{count:5} {key}\n" for key, count in sorted(counted.items())]
    Path(REPORT).write_text("".join([*summary, "\n", *lines]), encoding="utf-8")
