"""The official `anthropic` package, unmodified, against the running server and every wire kind."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.asking import PIXEL, refusals
from tests.conformance.desk import Desk, nano, saying

if TYPE_CHECKING:
    # Its import takes two seconds of every worker that only looks for tests.
    from anthropic import Anthropic

WEATHER: Any = {
    "name": "weather",
    "description": "Tells the weather.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
THINKING: Any = {"type": "enabled", "budget_tokens": 2048}
CALL = {"name": "weather", "arguments": {"city": "Oslo"}}


@pytest.fixture
def client(wire_desk: Desk) -> Iterator["Anthropic"]:
    """A client that never retries by itself and holds answers to its own types."""
    from anthropic import Anthropic

    url = f"{wire_desk.server.root_url}/api"
    with Anthropic(
        api_key=wire_desk.account.api_key,
        base_url=url,
        max_retries=0,
        timeout=20,
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.fixture
def ask(wire_desk: Desk) -> dict[str, Any]:
    return {"model": wire_desk.model, "max_tokens": 4096, "messages": saying("Hello there")}


def cost_nano(usage: Any) -> int:
    """The cost in a usage object; `anthropic` keeps fields it does not know."""
    return nano(Decimal(str(usage.cost)))


def test_a_plain_answer(client: "Anthropic", ask: Any, wire_desk: Desk) -> None:
    raw = client.messages.with_raw_response.create(**ask | {"messages": saying("say 4 words")})

    answer = raw.parse()
    (block,) = answer.content
    assert block.type == "text"
    assert len(block.text.split()) == 4
    assert (answer.stop_reason, answer.model) == ("end_turn", wire_desk.model)
    assert answer.usage.output_tokens == 4
    charged = wire_desk.charged_nano(raw.headers["X-Generation-Id"])
    assert cost_nano(answer.usage) == charged > 0
    counted = client.messages.count_tokens(model=wire_desk.model, messages=saying("Hello there"))
    assert counted.input_tokens > 0


@pytest.mark.grid
@pytest.mark.parametrize("stream", [False, True])
def test_tools_and_thinking_over_several_turns(
    client: "Anthropic", ask: Any, script: Any, stream: bool
) -> None:
    script(
        {"reasoning": "I look.", "tool_calls": [CALL, CALL]},
        {"reasoning": "Again.", "text": "One moment.", "tool_calls": [CALL]},
        {"text": "It rains in Oslo."},
    )
    history = saying("What is the weather?")
    turns = 0

    while turns < 5:
        turns += 1
        answer = _answer(client, stream, ask | {"messages": history, "tools": [WEATHER]})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            break
        assert answer.stop_reason == "tool_use"
        assert answer.content[0].type == "thinking"
        assert [call.input for call in calls] == [{"city": "Oslo"}] * len(calls)
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": "Rain"} for call in calls
        ]
        history = [
            *history,
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": results},
        ]

    assert turns == 3
    assert answer.content[-1].text == "It rains in Oslo."


def _answer(client: "Anthropic", stream: bool, body: Any) -> Any:
    if not stream:
        return client.messages.create(**body, thinking=THINKING)
    with client.messages.stream(**body, thinking=THINKING) as opened:
        return opened.get_final_message()


def test_an_image_and_a_document(client: "Anthropic", ask: Any, wire_desk: Desk) -> None:
    image = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    paper = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
    content: Any = [
        {"type": "text", "text": "Look"},
        {"type": "image", "source": image},
        {"type": "document", "source": paper, "title": "paper.pdf"},
    ]

    answer = client.messages.create(**ask | {"messages": [{"role": "user", "content": content}]})

    assert answer.usage.input_tokens == 1 + 85
    (entry,) = wire_desk.upstream.requests()
    sent = json.dumps(entry["body"])
    assert PIXEL in sent
    assert "JVBERi0xLjQK" in sent


def test_a_providers_refusal_becomes_the_right_class(
    client: "Anthropic", ask: Any, script: Any
) -> None:
    import anthropic

    others = {"_422": (400, "BadRequestError"), "_529": (529, "APIStatusError")}
    for fault, status, error, stream in refusals(anthropic, **others):
        script({"fault": fault})
        with pytest.raises(error) as raised:
            client.messages.create(**ask, stream=stream)
        body: Any = raised.value.body
        assert (body["type"], body["error"]["code"]) == ("error", status), fault
        assert raised.value.status_code == status


def test_a_stream_that_breaks_raises_after_its_content(
    client: "Anthropic", ask: Any, script: Any
) -> None:
    import anthropic

    script({"events": [{"text": "Half an ans"}, {"cut": "reset"}]})
    heard: list[str] = []

    with (
        pytest.raises(anthropic.APIStatusError, match=r"\w"),
        client.messages.stream(**ask) as stream,
    ):
        heard.extend(stream.text_stream)

    assert "".join(heard) == "Half an ans"
