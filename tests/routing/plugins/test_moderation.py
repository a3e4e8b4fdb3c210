"""The moderation hook: what it is shown, and what its word does."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.errors import Unavailable
from routing.formats.chat.request import ChatRequest
from routing.formats.decisions import DECISIONS
from routing.plugins.interface import PluginContext
from routing.plugins.moderation import Flagged, Moderation, list_texts, shorten
from tests.routing.formats.chat_bodies import parse_fields
from tests.support.moderating import FORBIDDEN, OUTAGE, TOO_FEW

PICTURE = "https://pictures.test/a.png"
HOOK = "tests.support.moderating.reasons"


def request(*texts: str) -> ChatRequest:
    return parse_fields(messages=[{"role": "user", "content": text} for text in texts])


def judge(chat: ChatRequest) -> tuple[Moderation, Any]:
    plugin = Moderation({"id": "moderation"})
    context: Any = PluginContext(None, (), time.monotonic() + 60)  # type: ignore[arg-type]  # Not asked.
    return plugin, plugin.find_refusal(chat, context)


def test_what_may_pass_does_and_so_does_all_without_a_hook(settings) -> None:
    plugin, refusal = judge(request(FORBIDDEN))
    assert (refusal, plugin.stages, plugin.facts) == (None, [], {})
    settings.ROUTER_MODERATION_HOOK = HOOK
    plugin, refusal = judge(request("Hello"))
    assert (refusal, plugin.stages) == (None, [])
    assert plugin.facts["moderation_latency_ms"] >= 0


def test_what_is_flagged_is_refused(settings) -> None:
    settings.ROUTER_MODERATION_HOOK = HOOK
    text = f"Once more: a {FORBIDDEN}. " + "And on it goes. " * 20
    plugin, refusal = judge(request("Hello", text))
    error = refusal()
    assert isinstance(error, Flagged)
    assert (error.status, error.error_type) == (403, "content_policy_violation")
    assert error.metadata["reasons"] == ["violence", "spam"]
    flagged = error.metadata["flagged_input"]
    assert len(flagged) == 100
    assert flagged.startswith("Once more")
    assert plugin.stages[0]["data"] == {"action": "blocked", "reasons": ["violence", "spam"]}


@pytest.mark.parametrize("text", [OUTAGE, TOO_FEW])
def test_nothing_goes_on_without_a_hook_that_fails(settings, text: str) -> None:
    settings.ROUTER_MODERATION_HOOK = HOOK
    with pytest.raises(Unavailable, match="Moderation is not available"):
        judge(request(text))


def test_the_hook_is_shown_every_text_once() -> None:
    parts = [{"type": "text", "text": "part"}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    function = {"name": "f", "arguments": '{"a": "argument"}'}
    calls = [{"id": "c", "type": "function", "function": function}]
    messages = [
        {"role": "system", "content": "system"},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "said", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c", "content": "result"},
        {"role": "user", "content": "said"},
    ]
    seen = list_texts(parse_fields(messages=messages))
    assert {"system", "part", "said", "result", "argument"} <= set(seen)
    assert len(seen) == len(set(seen))
    assert PICTURE not in seen


def test_the_hook_is_shown_what_is_to_be_decided() -> None:
    questions = {"q": {"type": "noul", "instructions": "Is it so?"}}
    body = {"model": "a/m", "state": "It is.", "questions": questions}
    chat = DECISIONS.parse(body, session_header=None, models_max=1)
    assert list_texts(chat) == ["It is.", "Is it so?"]


@given(st.text(max_size=300))
def test_a_long_text_is_told_by_its_ends(text: str) -> None:
    told = shorten(text)
    assert told == (text if len(text) <= 100 else f"{text[:49]}...{text[-48:]}")
