"""Three caller formats against three wire kinds: rows 49 to 54 and 59, and what goes with them.

Every test can run nine times. With every change it runs once for each format and each kind, which
meet in the shape of chat only. What is asked, heard and charged is the same in all nine.
"""

import json
from typing import Any

import pytest

from tests.conformance.asking import PERSONAS
from tests.conformance.desk import exact
from tests.conformance.pairs import Pair

pytestmark = pytest.mark.grid
FIRST, SECOND = "The first piece of text. ", "And then the second. "
PROMPT_NANO, COMPLETION_NANO, CACHED_NANO, WRITTEN_NANO = 1_000, 2_000, 100, 1_250
CITY = {
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@STREAMED
def test_the_same_words_the_same_counts_the_same_price(pair: Pair, stream: bool) -> None:
    details = {"cached_tokens": 40, "cache_write_tokens": 10}
    usage: dict[str, Any] = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    thought = {"reasoning_tokens": 5}
    usage |= {"prompt_tokens_details": details, "completion_tokens_details": thought}
    pair.script({"text": FIRST + SECOND, "usage": usage})

    said = pair.ask(stream=stream)

    assert len(pair.list_sent_bodies()) == 1
    assert (said.text, said.finish, said.model) == (FIRST + SECOND, "stop", pair.model)
    assert said.usage == (100, 20, 40, 10)
    uncached = 100 - 40 - 10
    priced = uncached * PROMPT_NANO + 40 * CACHED_NANO + 10 * WRITTEN_NANO + 20 * COMPLETION_NANO
    assert said.cost_nano == priced


@STREAMED
def test_everyone_is_busy(pair: Pair, stream: bool) -> None:
    """Two endpoints, both over their limits: one JSON refusal with the shorter hint."""
    for letter, wait_s in (("a", 7), ("b", 3)):
        step = {"fault": "429", "options": {"retry_after": wait_s}}
        pair.desk.upstream.script(f"{PERSONAS[pair.kind]}-{letter}", step)

    response = pair.post(model=f"acme/both-{pair.kind}", stream=stream)

    assert response.status_code == 429
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Retry-After"] == "3"
    body = exact(response)
    assert pair.speaker.read_error(body)[:2] == (429, "rate_limit_exceeded")
    assert '"previous_errors"' in response.text
    assert len(pair.list_sent_bodies()) == 2
    assert pair.desk.charged_nano(response.headers["X-Generation-Id"]) == 0


def test_an_upstream_dies_after_two_words(pair: Pair) -> None:
    """By closing the connection, or by saying so."""
    for death in ({"cut": "close"}, {"failure": "It broke"}):
        pair.script({"events": [{"text": FIRST}, {"text": SECOND}, death]})

        streamed = pair.stream()

        said = pair.speaker.read_events(streamed)
        assert said.text == FIRST + SECOND
        assert said.failure is not None
        assert not streamed.done
        assert "provider_unavailable" in json.dumps(streamed.values[-1], default=str)
        generation_id = streamed.response.headers["X-Generation-Id"]
        assert pair.desk.charged_nano(generation_id) == 0
        assert pair.desk.generation(generation_id)["finish_reason"] == "error"


def test_silence_is_filled(pair: Pair) -> None:
    pair.script(
        {"events": [{"text": FIRST}, {"gate": "long"}, {"text": SECOND}, {"finish": "stop"}]}
    )
    wire = pair.open()
    wire.read_until(b"first piece")

    wire.read_until(pair.speaker.keep_alive)
    wire.read_until(pair.speaker.keep_alive)
    pair.desk.upstream.open_gate("long")

    wire.read_until(b"then the second")
    wire.close()


def test_who_leaves_pays_for_what_was_produced(pair: Pair) -> None:
    pair.script({"events": [{"text": FIRST}, {"gate": "never"}, {"text": SECOND}]})
    wire = pair.open()
    _, headers = wire.head()
    wire.read_until(b"first piece")

    wire.close()

    assert pair.desk.upstream.wait(1, "disconnected")["closed_by"] == "client"
    record = pair.desk.wait_record(headers["x-generation-id"])
    assert (record["cancelled"], record["finish_reason"], record["streamed"]) == (True, None, True)
    produced = len(FIRST) // 4
    assert (record["tokens_prompt"], record["tokens_completion"]) == (3, produced)
    assert pair.desk.charged_nano(record["id"]) == 3 * 1_000 + produced * 2_000


def test_a_break_after_partial_output(pair: Pair) -> None:
    pair.script({"text": FIRST, "finish_reason": "error"})

    response = pair.post()

    body = exact(response)
    if pair.speaker.name == "messages":
        # The format has no place for partial output beside an error.
        assert response.status_code == 502
        assert pair.speaker.read_error(body)[:2] == (502, "provider_unavailable")
    else:
        assert response.status_code == 200, response.text
        said = pair.speaker.read_answer(body)
        assert (said.text, said.finish) == (FIRST, "error")
        assert said.failure is not None
        assert said.cost_nano == 0
    assert pair.desk.charged_nano(response.headers["X-Generation-Id"]) == 0


@STREAMED
def test_a_tool_is_called_and_answered_over_two_turns(pair: Pair, stream: bool) -> None:
    arguments = '{"city": "Zürich", "n": [1, 2.50, "\\u00e9"], "deep": {"a": null}}'
    calls = [{"name": "weather", "arguments": arguments}, {"name": "weather", "arguments": "{}"}]
    pair.script({"tool_calls": calls}, {"text": "It rains."})
    asked = pair.speaker.user("What is the weather?")
    more: dict[str, Any] = {"tools": [CITY], "stream": stream}

    first = pair.ask(asked, **more)
    results = pair.speaker.results({call.id: f"Rain {call.id}" for call in first.calls})
    second = pair.ask([*asked, *first.native, *results], **more)

    assert first.finish == "tool_calls"
    assert [call.name for call in first.calls] == ["weather", "weather"]
    assert [json.loads(call.arguments) for call in first.calls] == [json.loads(arguments), {}]
    # A whole message holds its input parsed; everywhere else arguments are text, kept as it was.
    if pair.kind != "anthropic" and (stream or pair.speaker.name != "messages"):
        assert first.calls[0].arguments == arguments
    assert (second.text, second.finish) == ("It rains.", "stop")
    _, sent = pair.list_sent_bodies()
    for call in first.calls:
        assert f"Rain {call.id}" in json.dumps(sent)


@STREAMED
def test_a_cap_ends_the_answer_with_length(pair: Pair, stream: bool) -> None:
    said = pair.ask(pair.speaker.user("say 30 words"), cap=20, stream=stream)

    assert (said.finish, len(said.text.split())) == ("length", 20)
