"""Conversations that are kept, and the part of one that may go on."""

from pathlib import Path

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from interns.agent.sessions import AgentSession, AgentSessions, drop_unanswered, list_turns

ASKED = ModelRequest(parts=[UserPromptPart("Hello")])
CALLED = ModelResponse(parts=[ToolCallPart("a", {}, "1"), ToolCallPart("b", {}, "2")])
BOTH = ModelRequest(parts=[ToolReturnPart("a", "x", "1"), ToolReturnPart("b", "y", "2")])
ONE = ModelRequest(parts=[ToolReturnPart("a", "x", "1")])
SAID = ModelResponse(parts=[TextPart("Done")])


def test_a_session_comes_back(tmp_path: Path) -> None:
    sessions = AgentSessions(tmp_path)
    # A caller chooses the id.
    odd = "../../etc/passwd\0 \ud800" + "x" * 200
    sessions.save(AgentSession(odd, [ASKED, CALLED, BOTH, SAID], {"write_file": True}))
    kept = sessions.load(odd)
    assert [m.kind for m in kept.messages] == ["request", "response", "request", "response"]
    assert kept.always == {"write_file": True}
    assert sessions.load("another").messages == []
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o077 == 0


def test_a_file_that_cannot_be_read_is_a_new_session(tmp_path: Path) -> None:
    sessions = AgentSessions(tmp_path)
    sessions.save(AgentSession("s", [ASKED]))
    (file,) = tmp_path.iterdir()
    for odd in (b"", b"{}", b'{"messages": 1, "always": {}}', b"\xff"):
        file.write_bytes(odd)
        assert sessions.load("s") == AgentSession("s")


def test_what_was_cut_off_is_left_out() -> None:
    whole: list[ModelMessage] = [ASKED, CALLED, BOTH, SAID]
    assert drop_unanswered(whole) == whole
    assert drop_unanswered([ASKED, CALLED]) == [ASKED]
    assert drop_unanswered([ASKED, CALLED, ONE]) == [ASKED]
    assert drop_unanswered([ASKED]) == [ASKED]
    assert drop_unanswered([]) == []


def test_what_was_said_can_be_read(tmp_path: Path) -> None:
    ask = {"message": "Which list?", "fields": []}
    asked = ModelResponse(parts=[ToolCallPart("ask_person", ask, "3")])
    answered = ModelRequest(parts=[ToolReturnPart("ask_person", {"list": "Shopping"}, "3")])
    declined = ModelRequest(parts=[ToolReturnPart("ask_person", "Your person declined.", "3")])
    sessions = AgentSessions(tmp_path)
    sessions.save(AgentSession("s", [ASKED, CALLED, BOTH, asked, answered, asked, declined, SAID]))

    assert [tuple(turn.values()) for turn in list_turns(sessions.load("s").messages)] == [
        ("user", "Hello", []),
        ("assistant", "", ["a", "b"]),
        ("assistant", "Which list?", []),
        ("user", "Shopping", []),
        ("assistant", "Which list?", []),
        ("user", "I do not say.", []),
        ("assistant", "Done", []),
    ]
