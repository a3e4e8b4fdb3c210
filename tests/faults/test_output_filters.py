"""Output filters over HTTP: each caller format, whole and streamed. What is charged is the same."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import pytest

from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.guarded import set_guardrail
from tests.support.gateways import seed_account

SOLO = bench.model("solo/model", bench.endpoint("first"))
SAID: Final = "Write to ada@example.org about Project Phoenix, please."
_names = count()
FORMATS: Final[dict[str, dict[str, Any]]] = {
    "/api/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/api/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 99},
    "/api/v1/responses": {"input": "Hi"},
}
WITHHELD: Final = {
    "/api/v1/chat/completions": "content_filter",
    "/api/v1/messages": "refusal",
    "/api/v1/responses": "content_filter",
}


@pytest.fixture(scope="module")
def gateway(gateway_with: Any, simulator: Any) -> Any:
    return gateway_with([SOLO])


@pytest.fixture
def desk(gateway: Any, simulator: Any) -> Iterator[Desk]:
    simulator.clear()
    yield Desk(gateway, simulator, seed_account(gateway), "solo/model")
    gateway.check_books()


def ask(desk: Desk, path: str, **body: Any) -> Any:
    given = {"model": "solo/model", **FORMATS[path], **body}
    answer = desk.server.post(path, key=desk.account.api_key, json=given)
    assert answer.status_code == 200, answer.text
    return answer


def charge(desk: Desk, answer: Any) -> Any:
    record = desk.generation(answer.headers["X-Generation-Id"])
    return record["total_cost"], record["tokens_prompt"], record["tokens_completion"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", FORMATS)
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


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", FORMATS)
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
    path = "/api/v1/chat/completions"
    answer = ask(desk, path, stream=True, tools=[{"type": "router:datetime"}])

    assert WITHHELD[path] in answer.text
    assert "router:datetime" not in answer.text
    assert len(desk.sent("first")) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", FORMATS)
def test_what_server_tools_are_called_with_is_looked_at(
    desk: Desk, path: str, stream: bool
) -> None:
    set_guardrail(desk, output_filter_builtins=[{"slug": "email", "action": "redact"}])
    call = {"name": "datetime", "arguments": {"timezone": "ada@example.org"}}
    desk.upstream.script("first", {"tool_calls": [call]}, {"text": "Done."})
    answer = ask(desk, path, stream=stream, tools=[{"type": "router:datetime"}])
    assert "[EMAIL]" in answer.text
    assert "ada@" not in answer.text


def test_the_shadow_counts_and_changes_nothing(desk: Desk) -> None:
    desk.upstream.script("first", {"text": SAID}, repeat=True)
    set_guardrail(
        desk,
        output_filter_builtins=[{"slug": "email", "action": "block"}],
        output_shadow=True,
    )
    for stream in (False, True):
        answer = desk.server.post(
            "/api/v1/chat/completions",
            key=desk.account.api_key,
            json={"model": "solo/model", "stream": stream} | FORMATS["/api/v1/chat/completions"],
            headers={"X-Router-Metadata": "enabled"},
        )
        text = joined(answer.text) if stream else answer.json()["choices"][0]["message"]["content"]
        assert text == SAID
        assert "would be blocked: email" in answer.text


def test_arguments_of_the_caller_s_tools_are_looked_at(desk: Desk) -> None:
    call = {"name": "send", "arguments": {"to": "ada@example.org", "n": 1}}
    desk.upstream.script("first", {"tool_calls": [call]}, repeat=True)
    set_guardrail(desk, output_filter_builtins=[{"slug": "email", "action": "redact"}])
    tools = [{"type": "function", "function": {"name": "send", "parameters": {"type": "object"}}}]
    path = "/api/v1/chat/completions"
    whole = ask(desk, path, tools=tools).json()["choices"][0]["message"]["tool_calls"][0]
    assert json.loads(whole["function"]["arguments"]) == {"to": "[EMAIL]", "n": 1}
    streamed = ask(desk, path, tools=tools, stream=True).text
    assert "ada@" not in streamed
    assert "[EMAIL]" in streamed


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
