"""Output filters on a stream cut anywhere. The caller reads what one who got the answer in one
piece would, and no match ever leaves in parts."""

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounts.guard_rules import GuardrailFilter
from routing.entities.exchange import ProviderExtras
from routing.formats.caller import Ending, ToolActivity
from routing.guarding.output_guard import OutputGuard
from routing.guarding.stream_guard import GuardedWriter
from tests.routing.guarding.filtering import MAIL, chat_of, place_filter, user

CARD = "4111 1111 1111 1111"
WORDS = [MAIL, CARD, "192.0.2.7", "+49 30 1234567", "Project Phoenix", "key-42", "tail"]
WORDS += ["hello", " ", "\n", ". ", "1 2 3", "a@b", "::", "ä€", "Project", "-", "x" * 40]
FILTERS = (
    place_filter("redact", "email"),
    place_filter("redact", "credit-card"),
    place_filter("redact", "ip-address"),
    place_filter("redact", "phone"),
    place_filter("redact", pattern="Project Phoenix", label="SECRET"),
    place_filter("redact", pattern=r"key-[0-9]+"),
)
NO_USAGE: Any = {}


class Reader:
    """A caller's format that keeps what it is given."""

    keep_alive = b""

    def __init__(self) -> None:
        self.deltas: list[dict[str, Any]] = []
        self.logprobs: list[Any] = []
        self.ending: Ending | None = None

    def delta(self, delta: dict[str, Any], logprobs: Any = None) -> bytes:
        self.logprobs.append(logprobs)
        self.deltas.append(delta)
        return b"."

    def write_ending(self, ending: Ending) -> bytes:
        self.ending = ending
        return b""

    def begin_tool(self, activity: Any) -> bytes:
        self.deltas.append({"tool": activity})
        return b""

    end_tool = begin_tool

    def text(self, name: str = "content") -> str:
        return "".join(delta.get(name, "") for delta in self.deltas)

    def arguments(self) -> str:
        calls = [call for delta in self.deltas for call in delta.get("tool_calls", ())]
        return "".join(call["function"].get("arguments", "") for call in calls)


def guard_of(*filters: GuardrailFilter) -> OutputGuard:
    return OutputGuard(filters, chat_of(user("hi")), uuid.UUID(int=1))


def end(writer: GuardedWriter, finish: str = "stop") -> None:
    writer.write_ending(Ending(finish, "stop", NO_USAGE, None, None, None, None, None))


def guarded_writer(guard: OutputGuard) -> tuple[Reader, GuardedWriter]:
    reader = Reader()
    return reader, GuardedWriter(reader, guard, None)  # type: ignore[arg-type]  # As much as is called.


def without_mail() -> tuple[Reader, GuardedWriter]:
    return guarded_writer(guard_of(place_filter("redact", "email")))


def stream(guard: OutputGuard, pieces: list[str]) -> Reader:
    reader, writer = guarded_writer(guard)
    for piece in pieces:
        writer.delta({"content": piece}, {"content": []})
    end(writer)
    # They would spell what was redacted.
    assert not guard.acts or not any(reader.logprobs)
    return reader


@pytest.mark.parametrize(
    ("filter", "said", "held"),
    [
        (place_filter("redact", "email"), "All but the last wo", "wo"),
        (place_filter("redact", "email"), "请联系我们的客服部门,邮箱是ada@exam", "ada@exam"),
        (place_filter("redact", "ip-address"), "服务器地址是192.0.", "192.0."),
        (
            place_filter("redact", "regex-prompt-injection"),
            "Please do ignore all  the",
            "ignore all  the",
        ),
        (place_filter("block", pattern="秘密计划"), "这是一个没有空格的句子,其中有秘密", "秘密"),
        (place_filter("block", pattern=r"密码[::]\S+"), "没有空格的句子没有关系密码", "密码"),
        (place_filter("block", pattern=r"密码[::]\S+"), "没有空格的密码:很长很长", "密码:很长很长"),
        (place_filter("block", pattern=r"\bsecret\b"), "no secrets and no secret", "secret"),
        (place_filter("block", pattern=r"(?i)Project\s+X"), "of the PROJECT  ", "PROJECT  "),
        (place_filter("block", pattern=r"BEGIN.*END"), "on a line BEGIN x\nof its own", ""),
        (place_filter("block", pattern=r"a(?:b|(?i:c)d){2,3}e$"), "x abab aCdabcd", "abcd"),
        (place_filter("block", pattern=r"\x41\101[^\]a][[:digit:]]"), "BAA", "AA"),
        # What nobody knows the beginnings of, in flags and quotations.
        (place_filter("block", pattern=r"a(?i)b"), "zzz", "zzz"),
        (place_filter("block", pattern=r"\Qa.b"), "zzz", "zzz"),
    ],
)
def test_only_what_may_become_a_match_is_held_back(
    filter: GuardrailFilter, said: str, held: str
) -> None:
    reader, writer = guarded_writer(guard_of(filter))
    writer.delta({"content": said})
    assert reader.text() + held == said


PATTERNS = [
    r"a(?:b|ca)*c",
    r"\bab+\b",
    r"(?:ab|b[ac]){2,3}",
    r"c{2,}a?$",
    r"密.?码|a密",
    r"^b|[^b]c\B",
]


NUMBERS = tuple(place_filter("redact", slug) for slug in ("credit-card", "phone", "ssn"))
CUT = st.one_of(
    st.tuples(st.just(FILTERS), st.lists(st.sampled_from(WORDS), max_size=12).map("".join)),
    st.tuples(
        st.sampled_from(PATTERNS).map(lambda pattern: (place_filter("redact", pattern=pattern),)),
        st.text("abc 密码", max_size=40),
    ),
    st.tuples(st.just(NUMBERS), st.text("0123456789 -.", max_size=300)),
)


@settings(max_examples=3 * settings().max_examples)
@given(CUT, st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_a_stream_says_what_the_whole_answer_says(
    cut: tuple[tuple[GuardrailFilter, ...], str], sizes: list[int]
) -> None:
    filters, text = cut
    pieces, at = list[str](), 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size

    whole = guard_of(*filters).guard_message({"content": text})["content"]
    reader = stream(guard_of(*filters), pieces)

    assert reader.text() == whole


def test_a_blocked_stream_ends_as_filtered_and_says_nothing_of_it() -> None:
    guard = guard_of(place_filter("block", pattern="Project Phoenix"))
    reader = stream(guard, ["It is called Pro", "ject Pho", "enix and ", "more of it"])

    assert "Phoenix" not in reader.text()
    assert "more" not in reader.text()
    assert reader.ending is not None
    assert (reader.ending.finish_reason, reader.ending.native_finish) == ("content_filter", None)
    (stage,) = guard.take_stages()
    assert (stage["name"], stage["data"]["action"]) == ("output_filter", "blocked")
    assert guard.take_stages() == []


def call_piece(index: int | None, arguments: str, **names: Any) -> dict[str, Any]:
    call = {"index": index, "function": {"arguments": arguments}, **names}
    return {"tool_calls": [call]}


HEAD, TAIL = '{"to": ["ada@exam', 'ple.org"]}'
WRITTEN = '{"to":["[EMAIL]"]}'
# Pieces of two calls, and what is read first of all.
CALLED: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "one after the other": (
        [call_piece(at, piece, id=f"c{at}") for at in range(2) for piece in (HEAD, TAIL)],
        ["c0", WRITTEN, "c1"],
    ),
    "side by side": (
        [call_piece(at, piece, id=f"c{at}") for piece in (HEAD, TAIL) for at in range(2)],
        ["c0", "c1", WRITTEN],
    ),
    "without numbers": (
        [call_piece(None, HEAD + TAIL, id=name) for name in ("c0", "c1")],
        ["c0", WRITTEN, "c1"],
    ),
}


@pytest.mark.parametrize(("pieces", "first"), CALLED.values(), ids=CALLED)
def test_arguments_of_tools_leave_as_a_whole_and_filtered(
    pieces: list[dict[str, Any]], first: list[str]
) -> None:
    reader, writer = without_mail()
    for piece in pieces:
        writer.delta(piece)
    end(writer, "tool_calls")
    calls = [call for delta in reader.deltas for call in delta["tool_calls"]]
    read = [call.get("id") or call["function"]["arguments"] for call in calls]
    assert list(dict.fromkeys(read)) == first
    assert reader.arguments() == WRITTEN * 2


# What a model wrote that was cut short, nothing at all, and an object in place of its text.
@pytest.mark.parametrize("arguments", ['{"to": "ada@example.org', "", {"to": "ada@example.org"}])
def test_arguments_of_any_form_are_looked_at(arguments: Any) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": arguments}}
    whole = guard_of(place_filter("redact", "email")).guard_message({"tool_calls": [call]})
    reader, writer = without_mail()
    writer.delta({"tool_calls": [call]})
    end(writer, "tool_calls")
    assert reader.arguments() == whole["tool_calls"][0]["function"]["arguments"]
    assert "ada@" not in reader.arguments()


@pytest.mark.parametrize(("words", "is_heard"), [("ada@example.org", False), ("nobody", True)])
def test_speech_is_heard_only_where_its_transcript_stays_as_it_is(
    words: str, is_heard: bool
) -> None:
    said = f"Ask {words} please."
    spoken = guard_of(place_filter("redact", "email")).guard_message(
        {"audio": {"id": "a", "transcript": said, "data": "UklGRg=="}}
    )["audio"]
    reader, writer = without_mail()
    for at in range(0, len(said), 5):
        writer.delta({"audio": {"id": "a", "transcript": said[at : at + 5], "data": "UklG"}})
    end(writer)
    audio = [delta["audio"] for delta in reader.deltas]
    heard = "".join(each.get("transcript", "") for each in audio)
    assert heard == spoken["transcript"] == said.replace("ada@example.org", "[EMAIL]")
    assert bool("".join(each.get("data", "") for each in audio)) is is_heard is bool(spoken["data"])


def test_numbers_without_end_are_not_held_for_ever() -> None:
    reader, writer = guarded_writer(guard_of(place_filter("redact", "credit-card")))
    for _ in range(200):
        writer.delta({"content": "0 1 "})
    assert len(reader.text()) >= 200 * 4 - 40
    writer.delta({"content": f"0 {CARD}"})
    end(writer)
    assert reader.text() == "0 1 " * 200 + "0 [CREDIT_CARD]"


def test_what_server_tools_are_called_with_and_come_to_is_looked_at() -> None:
    reader, writer = without_mail()
    file = {"type": "base64", "media_type": "application/pdf", "data": MAIL}
    activity = ToolActivity("c", "gateway:advisor", "advisor", f'{{"question":"{MAIL}?"}}')
    writer.begin_tool(activity)
    assert activity.arguments == '{"question":"[EMAIL]?"}'
    activity.result = activity.block = f"Ask {MAIL}"
    activity.item = {"advice": [f"Ask {MAIL}"], "encrypted_content": MAIL, "source": file}
    writer.end_tool(activity)
    assert activity.result == activity.block == "Ask [EMAIL]"
    assert activity.item == {
        "advice": ["Ask [EMAIL]"],
        "encrypted_content": MAIL,
        "source": file,
    }
    assert reader.deltas == [{"tool": activity}, {"tool": activity}]


def test_what_tools_do_is_not_told_once_the_answer_is_kept_back() -> None:
    reader, writer = guarded_writer(guard_of(place_filter("block", pattern="Phoenix")))
    writer.delta({"content": "It is Phoenix"})
    activity = ToolActivity("c", "gateway:web_search", "search", "{}")
    assert writer.begin_tool(activity) + writer.end_tool(activity) == b""
    assert not any("tool" in delta for delta in reader.deltas)


def test_thoughts_are_looked_at_too_and_kinds_keep_their_order() -> None:
    reader, writer = without_mail()
    detail = {"type": "reasoning.text", "index": 0}
    writer.delta({"reasoning": "it is ada@ex", "reasoning_details": [{**detail, "text": "ada@ex"}]})
    writer.delta({"reasoning": "ample.org", "reasoning_details": [{**detail, "text": "ample.org"}]})
    writer.delta({"content": "Ask ada@example.org"})
    end(writer)
    assert reader.text("reasoning") == "it is [EMAIL]"
    details = [each for delta in reader.deltas for each in delta.get("reasoning_details", ())]
    assert "".join(each["text"] for each in details) == "[EMAIL]"
    assert reader.text() == "Ask [EMAIL]"
    assert "reasoning" not in reader.deltas[-1]


def test_quotes_and_what_is_the_provider_s_own_are_looked_at() -> None:
    quoted = {"url": "https://pages.example/", "title": f"By {MAIL}", "content": f"Ask {MAIL}."}
    delta: dict[str, Any] = {
        "role": "assistant",
        "content": "Look there",
        "annotations": [{"type": "url_citation", "url_citation": quoted}],
        "executed_tools": [{"index": 0, "output": f"Found {MAIL}"}],
        "function_call": {"name": "send", "arguments": f'{{"to": "{MAIL}"}}'},
    }
    reader, writer = without_mail()
    writer.delta(delta)
    extras = ProviderExtras({"said": MAIL}, {"said": MAIL})
    writer.write_ending(Ending("stop", "stop", NO_USAGE, None, None, None, None, None, extras))

    whole = guard_of(place_filter("redact", "email")).guard_message(delta)
    for read in (whole, {name: each for part in reader.deltas for name, each in part.items()}):
        assert MAIL not in str(read)
        assert read["annotations"][0]["url_citation"]["content"] == "Ask [EMAIL]."
        assert read["executed_tools"] == [{"index": 0, "output": "Found [EMAIL]"}]
    assert reader.ending is not None
    assert reader.ending.beside is None


def test_in_the_shadow_nothing_changes_and_everything_is_counted() -> None:
    shadow = place_filter("flag", "email", shadow="redact")
    guard = guard_of(shadow, place_filter("flag", pattern="Phoenix"))
    reader = stream(guard, ["ada@exam", "ple.org and Phoe", "nix"])
    assert reader.text() == "ada@example.org and Phoenix"
    stages = {stage["data"]["action"]: stage["data"]["matches"] for stage in guard.take_stages()}
    assert stages == {"would be redacted": 1, "flagged": 1}


class Watcher:
    """External guards that find one word."""

    def __init__(self, *, acts: bool) -> None:
        self.acts, self.watches = acts, not acts
        self.looks: list[tuple[Any, ...]] = []

    def find_refusal(self, side: Any, texts: Any, *, acting: bool | None = None) -> object:
        if acting is None or acting == self.acts:
            self.looks.append(tuple(texts))
            return self.acts and "bad" in "".join(texts)
        return None

    def take_stages(self) -> list[dict[str, Any]]:
        return []


@pytest.mark.parametrize("word", ["good", "bad"])
@pytest.mark.parametrize("acts", [True, False])
def test_external_guards_look_once_at_what_filters_leave(acts: bool, word: str) -> None:
    guard, watcher = guard_of(place_filter("redact", "email")), Watcher(acts=acts)
    guard.add_external(watcher)
    reader = Reader()
    writer = GuardedWriter(reader, guard, None)  # type: ignore[arg-type]  # As above.
    for piece in (f"It is {word}, ", MAIL):
        writer.delta({"content": piece})
    # Who may keep it back holds it to its end.
    assert bool(reader.text()) is not acts
    end(writer)
    said = "" if acts and word == "bad" else f"It is {word}, [EMAIL]"
    assert reader.text() == said
    # Who only looks is shown what the model said.
    assert watcher.looks == [(f"It is {word}, {'[EMAIL]' if acts else MAIL}",)]
    assert guard.withheld is (said == "")


def test_what_comes_between_ends_no_text() -> None:
    reader, writer = without_mail()
    deltas: list[dict[str, Any]] = [
        {"content": "ada@exam"},
        {"annotations": [{}]},
        {"content": "ple.org"},
    ]
    for delta in deltas:
        writer.delta(delta)
    end(writer)
    assert reader.text() == "[EMAIL]"


def test_a_flag_beside_a_filter_that_acts_counts_once() -> None:
    arguments = '{"about": "Phoenix"}'
    guard = guard_of(place_filter("redact", "email"), place_filter("flag", pattern="Phoenix"))
    _, writer = guarded_writer(guard)
    writer.delta(call_piece(0, arguments, id="c"))
    end(writer, "tool_calls")
    (stage,) = guard.take_stages()
    assert (stage["data"]["action"], stage["data"]["matches"]) == ("flagged", 1)
