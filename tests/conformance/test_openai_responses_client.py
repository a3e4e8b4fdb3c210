"""The official `openai` package's responses, unmodified, against every wire kind."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from tests.conformance.asking import PERSONAS, PIXEL, refusals
from tests.conformance.desk import Desk, nano

WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
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


@pytest.fixture
def script(wire_desk: Desk, kind: str) -> Any:
    return lambda *steps: wire_desk.upstream.script(f"{PERSONAS[kind]}-a", *steps)


def test_a_plain_answer(client: OpenAI, ask: Any, wire_desk: Desk) -> None:
    raw = client.responses.with_raw_response.create(**ask, input="say 4 words")

    answer = raw.parse()
    assert len(answer.output_text.split()) == 4
    assert (answer.status, answer.model) == ("completed", wire_desk.model)
    assert answer.usage is not None
    assert answer.usage.output_tokens == 4
    cost = nano(Decimal(str(answer.usage.cost)))
    assert cost == wire_desk.charged_nano(raw.headers["X-Generation-Id"]) > 0


def test_a_streamed_answer(client: OpenAI, ask: Any) -> None:
    with client.responses.create(**ask, input="say 6 words", stream=True) as stream:
        events = list(stream)

    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1]
    assert last.type == "response.completed"
    said = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert said == last.response.output_text
    assert len(said.split()) == 6


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


def test_an_answer_into_a_type(client: OpenAI, ask: Any) -> None:
    answer = client.responses.parse(**ask, input="A number, please", text_format=Number)

    assert answer.output_parsed == Number(n=1)


def test_an_image_and_a_file(client: OpenAI, ask: Any, wire_desk: Desk) -> None:
    content = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
        {
            "type": "input_file",
            "filename": "paper.pdf",
            "file_data": "data:application/pdf;base64,JVBERi0xLjQK",
        },
    ]
    question: Any = [{"role": "user", "content": content}]

    answer = client.responses.create(**ask, input=question)

    assert answer.usage is not None
    assert answer.usage.input_tokens == 1 + 85
    (entry,) = wire_desk.upstream.requests()
    sent = json.dumps(entry["body"])
    assert PIXEL in sent
    assert "JVBERi0xLjQK" in sent


def test_an_answer_that_was_too_long(client: OpenAI, ask: Any) -> None:
    answer = client.responses.create(**ask, input="say 30 words", max_output_tokens=20)

    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize(("fault", "status", "error"), refusals(openai))
@pytest.mark.parametrize("stream", [False, True])
def test_a_providers_refusal_becomes_the_right_class(
    client: OpenAI,
    ask: Any,
    script: Any,
    fault: str,
    status: int,
    error: type[openai.APIStatusError],
    stream: bool,
) -> None:
    script({"fault": fault})

    with pytest.raises(error) as raised:
        client.responses.create(**ask, input="Hello", stream=stream)

    assert raised.value.status_code == status


def test_a_stream_that_breaks_says_so(client: OpenAI, ask: Any, script: Any) -> None:
    script({"events": [{"text": "Half an ans"}, {"cut": "reset"}]})

    with client.responses.create(**ask, input="Hello", stream=True) as stream:
        events = list(stream)

    said = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert said == "Half an ans"
    last = events[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.code == "server_error"


def test_the_gateways_own_refusals(client: OpenAI, ask: Any, wire_desk: Desk) -> None:
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):
        client.responses.create(**ask, input="Hello", previous_response_id="resp_1")
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="sk-wrong").responses.create(**ask, input="Hello")

    assert wire_desk.upstream.requests() == []
