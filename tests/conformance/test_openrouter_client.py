"""The `openrouter` package, unmodified, against every wire kind.

Its chat and responses calls pass, with the vendor's own names of tools, routers and headers. It has
no messages call of its own (only one that stores a preset). Answers say our names: it keeps items
of types that it does not know, and leaves `router_metadata` out.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from openrouter import OpenRouter

from tests.conformance.desk import Desk

HELLO: Any = [{"role": "user", "content": "Hello there"}]


@pytest.fixture
def client(wire_desk: Desk) -> Iterator[OpenRouter]:
    server = wire_desk.server
    with OpenRouter(
        api_key=wire_desk.account.api_key, server_url=server.base_url, retry_config=None
    ) as client:
        yield client


def test_plain_and_streamed_answers(client: OpenRouter, wire_desk: Desk) -> None:
    said = "Simulated answer to: Hello there"
    answer: Any = client.chat.send(model=wire_desk.model, messages=HELLO)
    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == (said, "stop")
    assert answer.usage.completion_tokens == 5
    assert answer.usage.cost > 0
    opened: Any = client.chat.send(model=wire_desk.model, messages=HELLO, stream=True)
    with opened as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == said
    assert chunks[-1].usage.completion_tokens == 5

    whole: Any = client.responses.send(model=wire_desk.model, input="Hello there")
    assert whole.status == "completed"
    assert whole.output[0].content[0].text == said
    opened = client.responses.send(model=wire_desk.model, input="Hello there", stream=True)
    with opened as stream:
        events = list(stream)
    deltas = [each.delta for each in events if each.type == "response.output_text.delta"]
    assert "".join(deltas) == said
    assert events[-1].type == "response.completed"


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
def test_loops_of_server_tools(
    client: OpenRouter, wire_desk: Desk, script: Any, stream: bool
) -> None:
    look = {"text": "Let me look. ", "tool_calls": [{"name": "datetime", "arguments": {}}]}
    script(look, {"text": "It is late."}, look, {"text": "It is late."})
    clock: Any = [{"type": "openrouter:datetime"}]
    chat: Any = client.chat.send(model=wire_desk.model, messages=HELLO, tools=clock)
    assert chat.choices[0].message.content == "Let me look. It is late."
    assert chat.choices[0].finish_reason == "stop"

    more: Any = {"model": wire_desk.model, "tools": clock}
    answer: Any = client.responses.send(input="Hello there", stream=stream, **more)
    if stream:
        with answer as events:
            answer = list(events)[-1].response
    item = next(each for each in answer.output if each.type == "UNKNOWN")
    assert item.raw["type"] == "router:datetime"
    assert answer.output[-1].content[0].text == "It is late."
    replayed: Any = [item.raw | {"type": "openrouter:datetime"}, *HELLO]
    assert client.responses.send(input=replayed, **more).status == "completed"
