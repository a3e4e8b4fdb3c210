"""Output filters over HTTP: each caller format, whole and streamed. What is charged is the same."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.conformance.asking import BODIES, MESSAGES, RESPONSES
from tests.conformance.desk import CHAT, Desk
from tests.conformance.guarded import set_guardrail
from tests.faults import bench
from tests.support.gateways import seed_account

SOLO = bench.model("solo/model", bench.endpoint("first"))
SAID: Final = "Write to ada@example.org about Project Phoenix, please."


WITHHELD: Final = {
    CHAT: "content_filter",
    MESSAGES: "refusal",
    RESPONSES: "content_filter",
}


@pytest.fixture(scope="module")
def gateway(gateway_with: Any, simulator: Any) -> Any:
    return gateway_with([SOLO], API_KEY_CACHE_SECONDS="0")


@pytest.fixture
def desk(gateway: Any, simulator: Any) -> Iterator[Desk]:
    simulator.clear()
    yield Desk(gateway, simulator, seed_account(gateway), "solo/model")
    gateway.check_books()


def ask(desk: Desk, path: str, **body: Any) -> Any:
    given = {"model": "solo/model", **BODIES[path], **body}
    answer = desk.server.post(path, key=desk.account.api_key, json=given)
    assert answer.status_code == 200, answer.text
    return answer


def charge(desk: Desk, answer: Any) -> Any:
    record = desk.generation(answer.headers["X-Generation-Id"])
    return record["total_cost"], record["tokens_prompt"], record["tokens_completion"]


@pytest.mark.grid
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
def test_each_format_reads_the_redacted_answer_at_the_same_price(
    desk: Desk, path: str, stream: bool
) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 17, "total_tokens": 28}
    desk.upstream.script("first", {"text": SAID, "usage": usage}, repeat=True)
    plain = ask(desk, path, stream=stream)
    assert "ada@example.org" in plain.text.replace("\\u0040", "@") or stream
    set_guardrail(
        desk,
        output_filter_builtins=[{"slug": "email", "action": "redact"}],
        output_filters=[{"pattern": "Project Phoenix", "action": "redact", "label": "SECRET"}],
    )
    guarded = ask(desk, path, stream=stream)

    assert "ada@" not in guarded.text
    assert "Phoenix" not in guarded.text
    text = joined(guarded.text) if stream else guarded.text
    assert "Write to [EMAIL] about [SECRET], please." in text
    assert charge(desk, guarded) == charge(desk, plain)


@pytest.mark.grid
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
def test_a_blocked_answer_ends_as_filtered_and_is_paid_for(
    desk: Desk, path: str, stream: bool
) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 17, "total_tokens": 28}
    desk.upstream.script("first", {"text": SAID, "usage": usage}, repeat=True)
    plain = ask(desk, path, stream=stream)
    set_guardrail(desk, output_filters=[{"pattern": "Phoenix", "action": "block"}])
    blocked = ask(desk, path, stream=stream)

    assert "Phoenix" not in blocked.text
    assert WITHHELD[path] in blocked.text
    assert charge(desk, blocked) == charge(desk, plain)
    record = desk.generation(blocked.headers["X-Generation-Id"])
    assert record["finish_reason"] == "content_filter"


def test_a_stream_that_is_kept_back_runs_no_tools(desk: Desk) -> None:
    set_guardrail(desk, output_filters=[{"pattern": "Phoenix", "action": "block"}])
    looks = {"text": "It is Phoenix", "tool_calls": [{"name": "datetime", "arguments": {}}]}
    desk.upstream.script("first", looks)
    answer = ask(desk, CHAT, stream=True, tools=[{"type": "router:datetime"}])

    assert WITHHELD[CHAT] in answer.text
    assert "router:datetime" not in answer.text
    assert len(desk.sent("first")) == 1


def joined(events: str) -> str:
    """The texts of a stream's events, in any format."""
    text = ""
    for line in events.splitlines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line[6:])
        for choice in event.get("choices", ()):
            text += choice.get("delta", {}).get("content") or ""
        delta = event.get("delta")
        if isinstance(delta, dict):
            text += delta.get("text") or ""
        elif isinstance(delta, str) and event.get("type") == "response.output_text.delta":
            text += delta
    return text
