"""Taking the middle out of a conversation, and when that is done."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.formats.chat.facts import read_prompt
from routing.formats.chat.request import ChatRequest, parse_chat
from routing.plugins import context_compression
from routing.plugins.context_compression import (
    compress_request,
    count_fixed_chars,
    measure_messages,
    remove_middle,
)
from tests.routing.selection.entries import endpoint

Message = dict[str, Any]


def says(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def call(call_id: str) -> Message:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def shorten_talk(talk: list[Message], chars_max: int) -> list[Message]:
    return remove_middle(talk, measure_messages(talk), chars_max)


def chars(messages: list[Message]) -> int:
    return read_prompt(messages).text_chars


TALK = [
    says("system", "S" * 10),
    *(says("user" if n % 2 == 0 else "assistant", str(n) * 100) for n in range(7)),
    says("user", "newest"),
]


def test_the_middle_goes_first() -> None:
    assert shorten_talk(TALK, chars(TALK)) == TALK
    assert shorten_talk(TALK, chars(TALK) - 300) == [*TALK[:3], *TALK[6:]]


def test_the_last_that_goes_is_only_shortened() -> None:
    made = shorten_talk(TALK, chars(TALK) - 130)
    assert len(made) == len(TALK) - 1
    cut = made[3]["content"]
    assert (cut[:30], cut[-30:], "…" in cut) == ("2" * 30, "2" * 30, True)
    assert chars(made) <= chars(TALK) - 130


def test_system_messages_and_the_newest_turn_stay() -> None:
    talk = [*TALK, call("c"), result("c", "R" * 500)]
    made = shorten_talk(talk, 1)
    assert made == [talk[0], *talk[-3:]]
    assert chars(made) == count_fixed_chars(talk, measure_messages(talk))
    # A conversation without a user keeps its end.
    talk = [says("assistant", "a" * 50), call("c1"), result("c1", "r" * 10)]
    assert shorten_talk(talk, 1) == talk[1:]


def test_a_call_goes_with_its_result_and_a_result_with_the_latest_call_of_its_id() -> None:
    around = [says("user", "a" * 20), says("assistant", "z" * 20), says("user", "b")]
    talk = [around[0], call("c1"), result("c1", "r" * 500), *around[1:]]
    assert shorten_talk(talk, 60) == around
    first, second = ([call("c"), result("c", text * 200)] for text in "ab")
    around = [says("user", "a" * 20), says("user", "z" * 20), says("user", "b")]
    talk = [around[0], *first, *second, *around[1:]]
    assert shorten_talk(talk, 270) == [around[0], *second, *around[1:]]


def test_each_message_is_looked_at_a_few_times_however_many_results_a_call_has() -> None:
    looks = 0

    class Counted(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal looks
            looks += 1
            return super().get(key, default)

    said = [call("c"), *[says("user", "a")] * 500, *[result("c", "b")] * 500, says("user", "z")]
    talk: list[Message] = [Counted(each) for each in said]
    assert shorten_talk(talk, 50) == talk[500:501] + talk[-1:]
    assert looks < 10 * len(talk)


@st.composite
def talks(draw: st.DrawFn) -> list[Message]:
    talk: list[Message] = []
    for number in range(draw(st.integers(1, 12))):
        text = draw(st.text(max_size=300))
        kind = draw(st.sampled_from(["user", "assistant", "system", "developer", "tools"]))
        if kind != "tools":
            talk.append(says(kind, text))
            continue
        talk.append(call(f"c{number}"))
        talk += [result(f"c{number}", text)] * draw(st.integers(0, 2))
    return talk


@given(talks(), st.integers(0, 2_000))
def test_any_conversation(talk: list[Message], chars_max: int) -> None:
    made = shorten_talk(talk, chars_max)
    assert chars(made) <= max(chars_max, count_fixed_chars(talk, measure_messages(talk)))
    assert not read_prompt(made).orphans
    kept = [each for each in made if each in talk]
    assert len(made) - len(kept) <= 1  # The one that was shortened.
    places = [next(at for at, other in enumerate(talk) if other is each) for each in kept]
    assert places == sorted(places)
    assert all(each in made for each in talk if each["role"] in ("system", "developer"))
    assert made[-1] == talk[-1]
    users = [each for each in talk if each["role"] == "user"]
    assert not users or users[-1] in made


def long_request() -> ChatRequest:
    talk = [says("user", "x" * 100)] * 500
    return parse_chat({"model": "m", "messages": talk}, session_header=None)


def test_messages_are_measured_once_and_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    is_beside, measured = False, []

    def run_beside(work: Callable[[], Any], **_: Any) -> Any:
        nonlocal is_beside
        is_beside = True
        try:
            return work()
        finally:
            is_beside = False

    def note_measuring(messages: list[Message]) -> list[int]:
        measured.append(is_beside)
        return measure_messages(messages)

    monkeypatch.setattr(context_compression, "run_in_thread", run_beside)
    monkeypatch.setattr(context_compression, "measure_messages", note_measuring)
    made = compress_request(long_request(), [endpoint(context_length=1_000)], None)
    assert made is not None
    assert 0 < made.chat.message_count < 500
    assert measured == [True]


def test_nothing_is_done_where_no_endpoint_may_compress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(context_compression, "run_in_thread")
    assert compress_request(long_request(), [endpoint(context_length=100_000)], None) is None
