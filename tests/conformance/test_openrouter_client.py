"""The `openrouter` package, unmodified, against every wire kind.

Its chat and responses calls pass, with the vendor's own names of tools, routers and headers. It has
no messages call of its own (only one that stores a preset). Answers say our names: it keeps items
of types that it does not know, and leaves `router_metadata` out.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openrouter import OpenRouter, errors

from tests.conformance.asking import PERSONAS, PIXEL
from tests.conformance.desk import Desk

HELLO: Any = [{"role": "user", "content": "Hello there"}]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
CALL = {"name": "weather", "arguments": {"city": "Oslo"}}
WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}


@pytest.fixture
def client(wire_desk: Desk) -> Iterator[OpenRouter]:
    server = wire_desk.server
    with OpenRouter(
        api_key=wire_desk.account.api_key, server_url=server.base_url, retry_config=None
    ) as client:
        yield client


@pytest.fixture
def script(wire_desk: Desk, kind: str) -> Any:
    return lambda *steps: wire_desk.upstream.script(f"{PERSONAS[kind]}-a", *steps)


def test_a_plain_answer(client: OpenRouter, wire_desk: Desk) -> None:
    answer: Any = client.chat.send(model=wire_desk.model, messages=HELLO)

    (choice,) = answer.choices
    assert choice.message.content == "Simulated answer to: Hello there"
    assert choice.finish_reason == "stop"
    assert answer.usage.completion_tokens == 5
    assert answer.usage.cost > 0


def test_a_streamed_answer(client: OpenRouter, wire_desk: Desk) -> None:
    opened: Any = client.chat.send(model=wire_desk.model, messages=HELLO, stream=True)
    with opened as stream:
        chunks = list(stream)

    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert said == "Simulated answer to: Hello there"
    assert chunks[-1].usage.completion_tokens == 5


def test_tools_and_reasoning_over_two_turns(
    client: OpenRouter, script: Any, wire_desk: Desk
) -> None:
    script({"reasoning": "I look.", "tool_calls": [CALL]}, {"text": "It rains."})
    more: Any = {"tools": [WEATHER], "reasoning": {"effort": "low"}}

    first: Any = client.chat.send(model=wire_desk.model, messages=HELLO, **more)
    message = first.choices[0].message
    (call,) = message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    assert message.reasoning == "I look."
    result = {"role": "tool", "tool_call_id": call.id, "content": "Rain"}
    history: Any = [*HELLO, message.model_dump(exclude_none=True), result]
    second: Any = client.chat.send(model=wire_desk.model, messages=history, **more)

    assert second.choices[0].message.content == "It rains."


def test_an_image_and_a_schema(client: OpenRouter, wire_desk: Desk) -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    question: Any = [{"role": "user", "content": [{"type": "text", "text": "Look"}, image]}]
    shape: Any = {"type": "json_schema", "json_schema": {"name": "city", "schema": PARAMETERS}}

    answer: Any = client.chat.send(model=wire_desk.model, messages=question, response_format=shape)

    assert json.loads(answer.choices[0].message.content) == {"city": "simulated"}
    assert answer.usage.prompt_tokens == 1 + 85


@pytest.mark.parametrize(("fault", "status"), [("400", 400), ("429", 429), ("529", 529)])
def test_a_refusal_is_an_error_of_its_own(
    client: OpenRouter, script: Any, wire_desk: Desk, fault: str, status: int
) -> None:
    script({"fault": fault})

    with pytest.raises(errors.OpenRouterError) as raised:
        client.chat.send(model=wire_desk.model, messages=HELLO)

    assert raised.value.status_code == status


def test_responses_whole_and_streamed(client: OpenRouter, wire_desk: Desk) -> None:
    whole: Any = client.responses.send(model=wire_desk.model, input="Hello there")
    opened: Any = client.responses.send(model=wire_desk.model, input="Hello there", stream=True)
    with opened as stream:
        events = list(stream)

    assert whole.status == "completed"
    assert whole.output[0].content[0].text == "Simulated answer to: Hello there"
    said = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert said == "Simulated answer to: Hello there"
    assert events[-1].type == "response.completed"


def test_a_loop_of_server_tools(client: OpenRouter, wire_desk: Desk, script: Any) -> None:
    look = {"name": "datetime", "arguments": {}}
    script({"text": "Let me look. ", "tool_calls": [look]}, {"text": "It is late."})
    clock: Any = [{"type": "openrouter:datetime"}]

    answer: Any = client.chat.send(model=wire_desk.model, messages=HELLO, tools=clock)

    assert answer.choices[0].message.content == "Let me look. It is late."
    assert answer.choices[0].finish_reason == "stop"


def test_the_vendors_names_of_routers_and_headers(client: OpenRouter, wire_desk: Desk) -> None:
    plugins: Any = [{"id": "auto-router", "allowed_models": [wire_desk.model]}]
    metadata: Any = "enabled"

    answer: Any = client.chat.send(
        model="openrouter/auto:floor",
        messages=HELLO,
        plugins=plugins,
        x_open_router_title="An app",
        x_open_router_categories="cli-agent",
        x_open_router_metadata=metadata,
    )

    assert answer.model == wire_desk.model
    generation = wire_desk.generation(answer.id)
    assert generation["router"] == "router/auto:floor"
    told = wire_desk.ok(headers={"X-OpenRouter-Metadata": "enabled"})["router_metadata"]
    assert told["requested"] == wire_desk.model


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_tool_in_responses(
    client: OpenRouter, wire_desk: Desk, script: Any, stream: bool
) -> None:
    look = {"name": "datetime", "arguments": {}}
    script({"tool_calls": [look]}, {"text": "It is late."})
    more: Any = {"tools": [{"type": "openrouter:datetime"}], "input": "Hello there"}

    answer: Any = client.responses.send(model=wire_desk.model, stream=stream, **more)
    if stream:
        with answer as events:
            answer = list(events)[-1].response

    item = next(each for each in answer.output if each.type == "UNKNOWN")
    assert item.raw["type"] == "router:datetime"
    assert answer.output[-1].content[0].text == "It is late."
    replayed: Any = [
        {"type": "openrouter:datetime", **{k: v for k, v in item.raw.items() if k != "type"}},
        {"role": "user", "content": "Hello again"},
    ]
    again: Any = client.responses.send(model=wire_desk.model, input=replayed, tools=more["tools"])
    assert again.status == "completed"
