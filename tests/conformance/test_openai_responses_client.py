"""The official `openai` package's responses, unmodified, against every wire kind."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from tests.conformance.asking import refusals
from tests.conformance.desk import Desk, nano

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: Any = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": True}
CALL = {"name": "weather", "arguments": {"city": "Oslo"}}
REASONING: Any = {
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
}


@pytest.fixture
def client(wire_desk: Desk) -> Iterator[OpenAI]:
    """A client that never retries by itself and holds answers to its own types."""
    with OpenAI(
        api_key=wire_desk.account.api_key,
        base_url=wire_desk.server.base_url,
        max_retries=0,
        timeout=20,
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.fixture
def ask(wire_desk: Desk) -> dict[str, Any]:
    return {"model": wire_desk.model, "store": False}


def said_in(events: list[Any]) -> str:
    return "".join(e.delta for e in events if e.type == "response.output_text.delta")


def test_a_plain_and_a_streamed_answer(client: OpenAI, ask: Any, wire_desk: Desk) -> None:
    raw = client.responses.with_raw_response.create(**ask, input="say 4 words")
    answer = raw.parse()
    assert len(answer.output_text.split()) == 4
    assert (answer.status, answer.model) == ("completed", wire_desk.model)
    assert answer.usage is not None
    assert answer.usage.output_tokens == 4
    cost = nano(Decimal(str(answer.usage.cost)))
    assert cost == wire_desk.charged_nano(raw.headers["X-Generation-Id"]) > 0

    with client.responses.create(**ask, input="say 6 words", stream=True) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1]
    assert last.type == "response.completed"
    assert said_in(events) == last.response.output_text
    assert len(said_in(events).split()) == 6


@pytest.mark.parametrize("stream", [False, True])
def test_tools_and_reasoning_over_several_turns(
    client: OpenAI, ask: Any, script: Any, stream: bool
) -> None:
    script(
        {"reasoning": "I look.", "tool_calls": [CALL, CALL]},
        {"reasoning": "Again.", "text": "One moment.", "tool_calls": [CALL]},
        {"text": "It rains in Oslo."},
    )
    history: list[Any] = [{"role": "user", "content": "What is the weather?"}]
    turns = 0

    while turns < 5:
        turns += 1
        body = {**ask, **REASONING, "input": history, "tools": [WEATHER]}
        answer = _answer(client, stream, body)
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            break
        assert answer.output[0].type == "reasoning"
        assert [json.loads(call.arguments) for call in calls] == [{"city": "Oslo"}] * len(calls)
        history += [item.to_dict() for item in answer.output]
        history += [
            {"type": "function_call_output", "call_id": call.call_id, "output": "Rain"}
            for call in calls
        ]

    assert turns == 3
    assert answer.output_text == "It rains in Oslo."


def _answer(client: OpenAI, stream: bool, body: Any) -> Any:
    if not stream:
        return client.responses.create(**body)
    with client.responses.stream(**body) as opened:
        return opened.get_final_response()


class Number(BaseModel):
    n: int


def test_a_type_and_a_cap(client: OpenAI, ask: Any) -> None:
    answer = client.responses.parse(**ask, input="A number, please", text_format=Number)
    assert answer.output_parsed == Number(n=1)

    cut = client.responses.create(**ask, input="say 30 words", max_output_tokens=20)
    assert cut.status == "incomplete"
    assert cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "max_output_tokens"


def test_a_providers_refusal_becomes_the_right_class(client: OpenAI, ask: Any, script: Any) -> None:
    for fault, status, error, stream in refusals(openai):
        script({"fault": fault})
        with pytest.raises(error) as raised:
            client.responses.create(**ask, input="Hello", stream=stream)
        assert raised.value.status_code == status


def test_a_stream_that_breaks_says_so(client: OpenAI, ask: Any, script: Any) -> None:
    script({"events": [{"text": "Half an ans"}, {"cut": "reset"}]})

    with client.responses.create(**ask, input="Hello", stream=True) as stream:
        events = list(stream)

    assert said_in(events) == "Half an ans"
    last = events[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.code == "server_error"
