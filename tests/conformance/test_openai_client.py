"""The official `openai` package's chat completions, unmodified, against the running server; what
goes over wires, over every kind of them."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionChunk

from tests.conformance.asking import PIXEL, refusals
from tests.conformance.desk import HELLO, Desk, nano, saying

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
CALL = {"name": "weather", "arguments": {"city": "Oslo", "days": 1}}
MESSAGES: Any = HELLO
ONE_KIND = pytest.mark.parametrize("kind", ["openai"], indirect=True)


@pytest.fixture
def desk(wire_desk: Desk) -> Desk:
    return wire_desk


@pytest.fixture
def client(desk: Desk) -> Iterator[OpenAI]:
    """A client that never retries by itself."""
    key, url = desk.account.api_key, desk.server.base_url
    with OpenAI(api_key=key, base_url=url, max_retries=0, timeout=20) as client:
        yield client


def cost_nano(usage: Any) -> int:
    """The cost in a usage object; `openai` keeps fields it does not know."""
    return nano(Decimal(str(usage.cost)))


def chunks_of(client: OpenAI, **asked: Any) -> list[ChatCompletionChunk]:
    with client.chat.completions.create(**asked, stream=True) as stream:
        return list(stream)


@ONE_KIND
def test_a_plain_and_a_streamed_answer(client: OpenAI, desk: Desk) -> None:
    asked: Any = {"model": desk.model, "messages": saying("say 4 words")}
    answer = client.chat.completions.create(**asked)
    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    assert len((choice.message.content or "").split()) == 4
    assert (choice.finish_reason, answer.model) == ("stop", desk.model)
    assert answer.usage
    assert answer.usage.completion_tokens == 4
    assert cost_nano(answer.usage) == desk.charged_nano(answer.id) > 0

    chunks = chunks_of(client, **asked)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert len(text.split()) == 4
    assert len({chunk.id for chunk in chunks}) == 1
    last = chunks[-1]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert last.usage
    assert cost_nano(last.usage) == desk.charged_nano(last.id) > 0


@pytest.mark.grid
@pytest.mark.parametrize("stream", [False, True])
def test_tools_and_reasoning_over_several_turns(
    client: OpenAI, script: Any, desk: Desk, stream: bool
) -> None:
    script(
        {"reasoning": "I look.", "tool_calls": [CALL, CALL]},
        {"text": "One moment.", "tool_calls": [CALL]},
        {"text": "It rains in Oslo."},
    )
    history: list[Any] = saying("What is the weather?")
    turns = 0

    while turns < 5:
        turns += 1
        message = _answer(client, stream, desk.model, history)
        if turns == 1 and not stream:
            assert message.reasoning == "I look."
        if not message.tool_calls:
            break
        called = [json.loads(call.function.arguments) for call in message.tool_calls]
        assert called == [CALL["arguments"]] * len(called)
        # What a client sends back: all of the message, with what it does not know itself.
        history.append(message.model_dump(exclude_none=True))
        history += [
            {"role": "tool", "tool_call_id": call.id, "content": "Rain"}
            for call in message.tool_calls
        ]

    assert turns == 3
    assert message.content == "It rains in Oslo."


def _answer(client: OpenAI, stream: bool, model: str, history: list[Any]) -> Any:
    reasoning = {"effort": "low", "exclude": stream}
    asked: Any = {"tools": [WEATHER], "extra_body": {"reasoning": reasoning}}
    asked |= {"model": model, "messages": history}
    if not stream:
        return client.chat.completions.create(**asked).choices[0].message
    with client.chat.completions.stream(**asked) as opened:
        return opened.get_final_completion().choices[0].message


def test_an_image_and_a_schema(client: OpenAI, desk: Desk) -> None:
    named = {"name": "person", "strict": True, "schema": PARAMETERS}
    shape: Any = {"type": "json_schema", "json_schema": named}
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    question: Any = [{"role": "user", "content": [{"type": "text", "text": "Look"}, image]}]

    answer = client.chat.completions.create(
        model=desk.model, messages=question, response_format=shape
    )

    assert json.loads(answer.choices[0].message.content or "").keys() == {"city", "days"}
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 1 + 85


def test_a_providers_refusal_becomes_the_right_class(
    client: OpenAI, script: Any, desk: Desk
) -> None:
    others = {"_503": (503, "InternalServerError"), "_504": (524, "InternalServerError")}
    for fault, status, error, stream in refusals(openai, **others):
        script({"fault": fault})
        with pytest.raises(error) as raised:
            client.chat.completions.create(model=desk.model, messages=MESSAGES, stream=stream)

        told = raised.value
        assert told.status_code == told.body["code"] == status, fault
        assert told.body["metadata"]["provider_name"].endswith(" A")
        assert desk.charged_nano(told.response.headers["X-Generation-Id"]) == 0


@ONE_KIND
def test_a_stream_that_breaks_raises_after_its_content(
    client: OpenAI, script: Any, desk: Desk
) -> None:
    script({"events": [{"text": "Half an ans"}, {"cut": "reset"}]})
    heard: list[str] = []

    with (
        client.chat.completions.create(model=desk.model, messages=MESSAGES, stream=True) as stream,
        pytest.raises(openai.APIError) as raised,
    ):
        heard.extend(chunk.choices[0].delta.content or "" for chunk in stream)

    assert "".join(heard) == "Half an ans"
    assert str(raised.value.code) == "502"
    assert desk.charged_nano(stream.response.headers["X-Generation-Id"]) == 0
