"""The official `openai` package's chat completions, unmodified, against every wire kind."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.conformance.asking import PERSONAS, PIXEL
from tests.conformance.desk import Desk

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
CALL = {"name": "weather", "arguments": {"city": "Oslo"}}


@pytest.fixture
def client(wire_desk: Desk) -> Iterator[OpenAI]:
    key, url = wire_desk.account.api_key, wire_desk.server.base_url
    with OpenAI(api_key=key, base_url=url, max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture
def script(wire_desk: Desk, kind: str) -> Any:
    return lambda *steps: wire_desk.upstream.script(f"{PERSONAS[kind]}-a", *steps)


@pytest.mark.parametrize("stream", [False, True])
def test_tools_and_reasoning_over_several_turns(
    client: OpenAI, script: Any, wire_desk: Desk, stream: bool
) -> None:
    script(
        {"reasoning": "I look.", "tool_calls": [CALL, CALL]},
        {"text": "One moment.", "tool_calls": [CALL]},
        {"text": "It rains in Oslo."},
    )
    history: list[Any] = [{"role": "user", "content": "What is the weather?"}]
    turns = 0

    while turns < 5:
        turns += 1
        message = _answer(client, stream, wire_desk.model, history)
        if not message.tool_calls:
            break
        called = [json.loads(call.function.arguments) for call in message.tool_calls]
        assert called == [{"city": "Oslo"}] * len(called)
        # What a client sends back: all of the message, with what it does not know itself.
        history.append(message.model_dump(exclude_none=True))
        history += [
            {"role": "tool", "tool_call_id": call.id, "content": "Rain"}
            for call in message.tool_calls
        ]

    assert turns == 3
    assert message.content == "It rains in Oslo."


def _answer(client: OpenAI, stream: bool, model: str, history: list[Any]) -> Any:
    body: Any = {
        "model": model,
        "messages": history,
        "tools": [WEATHER],
        "extra_body": {"reasoning": {"effort": "low", "exclude": stream}},
    }
    if not stream:
        return client.chat.completions.create(**body).choices[0].message
    with client.chat.completions.stream(**body) as opened:
        return opened.get_final_completion().choices[0].message


def test_an_image_and_a_schema(client: OpenAI, wire_desk: Desk) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    shape: Any = {
        "type": "json_schema",
        "json_schema": {"name": "n", "strict": True, "schema": schema},
    }
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    question: Any = [{"role": "user", "content": [{"type": "text", "text": "Look"}, image]}]

    answer = client.chat.completions.create(
        model=wire_desk.model, messages=question, response_format=shape
    )

    assert json.loads(answer.choices[0].message.content or "") == {"n": 1}
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 1 + 85


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("400", openai.BadRequestError),
        ("404", openai.NotFoundError),
        ("429", openai.RateLimitError),
        ("529", openai.InternalServerError),
    ],
)
def test_a_refusal_becomes_the_right_class(
    client: OpenAI, script: Any, wire_desk: Desk, fault: str, error: type[openai.APIStatusError]
) -> None:
    script({"fault": fault})

    with pytest.raises(error):
        client.chat.completions.create(
            model=wire_desk.model, messages=[{"role": "user", "content": "Hello"}]
        )
