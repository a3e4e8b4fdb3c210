"""Official clients, unmodified, in front of loops of server tools."""

from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.conformance.asking import PERSONAS
from tests.conformance.desk import HELLO, Desk

pytestmark = pytest.mark.thorough

CALL = {"text": "Let me look. ", "tool_calls": [{"name": "datetime", "arguments": {}}]}
ANSWER = {"text": "It is late."}
CLOCK: Any = [{"type": "router:datetime"}]
MESSAGES: Any = HELLO
TEXT = "Let me look. It is late."


@pytest.fixture
def model(wire_desk: Desk, kind: str) -> str:
    wire_desk.upstream.script(f"{PERSONAS[kind]}-a", CALL, ANSWER)
    return wire_desk.model


@pytest.fixture
def client(wire_desk: Desk) -> Iterator[OpenAI]:
    key, url = wire_desk.account.api_key, wire_desk.server.base_url
    with OpenAI(api_key=key, base_url=url, max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture
def anthropic(wire_desk: Desk) -> Iterator[Anthropic]:
    key, url = wire_desk.account.api_key, f"{wire_desk.server.root_url}/api"
    with Anthropic(api_key=key, base_url=url, max_retries=0, timeout=20) as client:
        yield client


def test_chat(client: OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=MESSAGES, tools=CLOCK)

    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == (TEXT, "stop")
    assert choice.message.tool_calls is None


def test_chat_streamed(client: OpenAI, model: str) -> None:
    with client.chat.completions.stream(model=model, messages=MESSAGES, tools=CLOCK) as stream:
        final = stream.get_final_completion()

    assert final.choices[0].message.content == TEXT
    assert final.choices[0].finish_reason == "stop"


def test_responses(client: OpenAI, model: str) -> None:
    answer = client.responses.create(model=model, input="Hello", tools=CLOCK)

    assert answer.status == "completed"
    assert answer.output_text == TEXT
    kinds = [item.type for item in answer.output]
    assert kinds == ["message", "router:datetime", "message"]


# The client repeats the request's tools in its own words, and has none for this one.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_responses_streamed(client: OpenAI, model: str) -> None:
    with client.responses.stream(model=model, input="Hello", tools=CLOCK) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_response()

    assert final.output_text == TEXT
    assert events.count("response.output_item.added") == 3
    assert events.count("response.output_item.done") == 3
    assert events[-1] == "response.completed"


def test_messages(anthropic: Anthropic, model: str) -> None:
    answer = anthropic.messages.create(model=model, max_tokens=100, messages=MESSAGES, tools=CLOCK)

    assert answer.stop_reason == "end_turn"
    kinds = [block.type for block in answer.content]
    assert kinds == ["text", "server_tool_use", "text"]
    assert "".join(block.text for block in answer.content if block.type == "text") == TEXT


def test_messages_streamed(anthropic: Anthropic, model: str) -> None:
    with anthropic.messages.stream(
        model=model, max_tokens=100, messages=MESSAGES, tools=CLOCK
    ) as stream:
        final = stream.get_final_message()

    assert [block.type for block in final.content] == ["text", "server_tool_use", "text"]
    assert "".join(block.text for block in final.content if block.type == "text") == TEXT
