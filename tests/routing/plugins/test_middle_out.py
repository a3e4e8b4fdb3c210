"""Taking the middle out of a conversation."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from routing.formats.chat.facts import read_messages
from routing.plugins.middle_out import fixed_chars, sizes_of, without_middle


def says(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": text, **more}


def call(call_id: str) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def shortened(talk: list[dict[str, Any]], chars_max: int) -> list[dict[str, Any]]:
    return without_middle(talk, sizes_of(talk), chars_max)


def chars(messages: list[dict[str, Any]]) -> int:
    return read_messages(messages).text_chars


TALK = [
    says("system", "S" * 10),
    *(says("user" if n % 2 == 0 else "assistant", str(n) * 100) for n in range(7)),
    says("user", "newest"),
]


def test_what_fits_is_left_alone() -> None:
    assert shortened(TALK, chars(TALK)) == TALK


def test_the_middle_goes_first() -> None:
    made = shortened(TALK, chars(TALK) - 300)
    assert made == [*TALK[:3], *TALK[6:]]


def test_the_last_that_goes_is_only_shortened() -> None:
    made = shortened(TALK, chars(TALK) - 130)
    assert len(made) == len(TALK) - 1
    cut = made[3]
    assert cut["content"].startswith("2" * 30)
    assert cut["content"].endswith("2" * 30)
    assert "…" in cut["content"]
    assert chars(made) <= chars(TALK) - 130


def test_system_messages_and_the_newest_turn_stay() -> None:
    talk = [*TALK, call("c"), result("c", "R" * 500)]
    made = shortened(talk, 1)
    assert made == [talk[0], *talk[-3:]]
    assert chars(made) == fixed_chars(talk, sizes_of(talk))


def test_a_call_goes_with_its_result() -> None:
    around = [says("user", "a" * 20), says("assistant", "z" * 20), says("user", "b")]
    talk = [around[0], call("c1"), result("c1", "r" * 500), *around[1:]]
    assert shortened(talk, 60) == around


def test_a_conversation_without_a_user_keeps_its_end() -> None:
    talk = [says("assistant", "a" * 50), call("c1"), result("c1", "r" * 10)]
    assert shortened(talk, 1) == talk[1:]


def test_a_result_goes_with_the_latest_call_of_its_id() -> None:
    first, second = ([call("c"), result("c", text * 200)] for text in "ab")
    around = [says("user", "a" * 20), says("user", "z" * 20), says("user", "b")]
    talk = [around[0], *first, *second, *around[1:]]
    assert shortened(talk, 270) == [around[0], *second, *around[1:]]


def test_each_message_is_looked_at_a_few_times_however_many_results_a_call_has() -> None:
    looks = 0

    class Counted(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal looks
            looks += 1
            return super().get(key, default)

    users, results = [says("user", "a")] * 500, [result("c", "b")] * 500
    talk: list[dict[str, Any]] = [
        Counted(each) for each in [call("c"), *users, *results, says("user", "z")]
    ]
    assert shortened(talk, 50) == talk[500:501] + talk[-1:]
    assert looks < 10 * len(talk)


@st.composite
def talks(draw: st.DrawFn) -> list[dict[str, Any]]:
    talk: list[dict[str, Any]] = []
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
def test_any_conversation(talk: list[dict[str, Any]], chars_max: int) -> None:
    made = shortened(talk, chars_max)
    assert chars(made) <= max(chars_max, fixed_chars(talk, sizes_of(talk)))
    assert not read_messages(made).orphans
    kept = [each for each in made if each in talk]
    assert len(made) - len(kept) <= 1  # The one that was shortened.
    places = [next(at for at, other in enumerate(talk) if other is each) for each in kept]
    assert places == sorted(places)
    assert all(each in made for each in talk if each["role"] in ("system", "developer"))
    assert made[-1] == talk[-1]
    users = [each for each in talk if each["role"] == "user"]
    assert not users or users[-1] in made
