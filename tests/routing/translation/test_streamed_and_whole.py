"""One answer, told whole and streamed, by any upstream to any caller, says the same.

And the caller can send it back: the reasoning reaches the upstream byte for byte.
"""

import itertools
import json
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from routing.simulator.answer import AnswerSeed, compose_answer
from routing.simulator.encoding import dumps
from routing.simulator.formats import FORMATS as SIMULATED
from tests.routing.translation.conversations import facts_of, objects, words
from tests.routing.translation.steps import (
    FORMATS,
    KINDS,
    parsed,
    read_whole,
    sent,
    told_stream,
    told_whole,
)
from tests.support.speakers import SPEAKERS, Said, read_stream

MANY = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
VERY_MANY = settings(MANY, max_examples=20_000)
RESOURCES = {"openai": "chat/completions", "anthropic": "messages", "responses": "responses"}
IDENTITY = AnswerSeed("chatcmpl-0000000100000001", 1_760_000_000)
HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}
pairs = st.sampled_from([pair for pair in itertools.product(KINDS, KINDS) if pair[0] != pair[1]])
answers = st.fixed_dictionaries(
    {"text": words},
    optional={
        "reasoning": words,
        "redacted": words,
        "tool_calls": st.lists(
            objects.map(lambda value: {"name": "weather", "arguments": json.dumps(value)}),
            min_size=1,
            max_size=2,
        ),
        "finish_reason": st.sampled_from(["stop", "length"]),
    },
)
# A provider shows its reasoning to those who ask.
WISHES: dict[str, dict[str, Any]] = {
    "openai": {},
    "anthropic": {"thinking": {"type": "adaptive"}},
    "responses": {
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    },
}


def heard_whole(caller: str, told: dict[str, Any]) -> Said:
    return SPEAKERS[FORMATS[caller].name].heard(told)


def heard_stream(caller: str, told: bytes) -> Said:
    response = requests.Response()
    response.status_code, response._content = 200, told
    response.headers["Content-Type"] = "text/event-stream; charset=utf-8"
    streamed = read_stream(response)
    assert streamed.done
    return SPEAKERS[FORMATS[caller].name].heard_stream(streamed)


def facts_sent_back(caller: str, said: Said) -> Any:
    """What the answer says once its caller has put it into the next request."""
    history = {"openai": "messages", "anthropic": "messages", "responses": "input"}[caller]
    results = SPEAKERS[FORMATS[caller].name].results({call.id: "r" for call in said.calls})
    given = [*HELLO, *said.native, *(results if said.calls else HELLO)]
    return parsed(caller, {"model": "acme/small", "max_tokens": 99, history: given}).body


def check(caller: str, upstream: str, override: dict[str, Any]) -> None:
    simulated, wishes = SIMULATED[RESOURCES[upstream]], WISHES[upstream]
    answer = compose_answer({"messages": HELLO, "model": "m"}, IDENTITY, override)
    request = parsed("openai", {"model": "acme/small", "messages": HELLO, "tools": [TOOL]})
    if caller != "openai":
        request = parsed(caller, sent(caller, request))

    document = dumps(simulated.document(wishes, answer)).encode()
    whole = heard_whole(
        caller, told_whole(FORMATS[caller], request, read_whole(upstream, document))
    )
    events = b"".join(simulated.stream(wishes, answer).events())
    streamed = heard_stream(caller, told_stream(upstream, FORMATS[caller], request, events)[0])

    assert streamed.text == whole.text == override["text"]
    assert streamed.reasoning == whole.reasoning == override.get("reasoning", "")
    assert streamed.finish == whole.finish
    given = [json.loads(call["arguments"]) for call in override.get("tool_calls", [])]
    for said in (whole, streamed):
        assert [json.loads(call.arguments) for call in said.calls] == given
    first, second = (facts_sent_back(caller, said) for said in (whole, streamed))
    assert facts_of(first["messages"]) == facts_of(second["messages"])
    if upstream != "openai":
        check_replayed(upstream, first, document)


def check_replayed(upstream: str, body: dict[str, Any], document: bytes) -> None:
    """The upstream finds its own reasoning in the next request."""
    request = parsed("openai", {"model": "acme/small", **body})
    replayed = json.dumps(sent(upstream, request))
    for sealed in _seals(json.loads(document)):
        assert sealed in replayed


def _seals(document: dict[str, Any]) -> list[str]:
    items = document.get("content") or document.get("output") or []
    names = ("signature", "data", "encrypted_content")
    return [item[name] for item in items for name in names if item.get(name)]


@given(pairs, answers)
@MANY
def test_streamed_and_whole_answers_agree(pair: tuple[str, str], override: dict[str, Any]) -> None:
    check(*pair, override)


@pytest.mark.nightly
@given(pairs, answers)
@VERY_MANY
def test_twenty_thousand_answers_agree(pair: tuple[str, str], override: dict[str, Any]) -> None:
    check(*pair, override)
