"""What chats are refused before they reach a runtime: bodies, statuses, and who asks."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from interns.chat.body import ChatPrompt, ChatReply, InvalidChatBody, read_chat_body
from interns.models import ChatRun, Intern
from tests.interns.chat.room import build_answer, user
from tests.interns.farm import Farm

STREAMED = {"stream": True, "messages": user()}
TOOL = build_answer("call-1", "allow_once")
PICTURE = [{"role": "user", "content": [{"type": "image_url"}]}]


def last(**message: Any) -> dict[str, Any]:
    return STREAMED | {"messages": [message]}


def build_reply(messages: Any) -> dict[str, Any]:
    return {"stream": True, "session_id": "s", "messages": messages}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "stream"),
        ({"messages": user()}, "stream"),
        (STREAMED | {"stream": False}, "stream"),
        (STREAMED | {"stream": "true"}, "stream"),
        ({"stream": True}, "messages"),
        (STREAMED | {"messages": []}, "messages"),
        (STREAMED | {"messages": {}}, "messages"),
        (last(role="bot"), "messages.0.role"),
        (last(role="user"), "messages.0.content"),
        (STREAMED | {"messages": PICTURE}, "messages.0.content.0.type"),
        (last(role="user", content=""), "messages.0.content"),
        (last(role="user", content="x" * 32_001), "messages.0.content"),
        (last(role="assistant", content=None), "messages.0.role"),
        (last(role="system", content="x"), "messages.0.role"),
        (STREAMED | {"session_id": ""}, "session_id"),
        (STREAMED | {"session_id": "s" * 257}, "session_id"),
        (STREAMED | {"session_id": 7}, "session_id"),
        (STREAMED | {"approval_mode": "ask"}, "approval_mode"),
        (STREAMED | {"model": ""}, "model"),
        (STREAMED | {"model": "m" * 257}, "model"),
        ({"stream": True, "messages": TOOL}, "session_id"),
        (build_reply([{"role": "tool", "content": "x"}]), "messages.0.tool_call_id"),
        (build_reply(build_answer("", "x")), "messages.2.tool_call_id"),
        (build_reply(build_answer("c" * 129, "x")), "messages.2.tool_call_id"),
    ],
)
def test_a_wrong_body_is_told_where_it_is_wrong(body: Any, path: str) -> None:
    with pytest.raises(InvalidChatBody) as wrong:
        read_chat_body(body)
    assert path in [issue.path for issue in wrong.value.issues]


def test_the_last_message_is_a_prompt_or_an_answer() -> None:
    said: Any = {"stream": True, "model": "m" * 256, "session_id": "s" * 256, "temperature": "?"}
    said["messages"] = [
        {"role": "developer", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": None},
        {"role": "user", "content": [{"type": "text", "text": "x" * 32_000}]},
    ]
    assert read_chat_body(said) == ChatPrompt("x" * 32_000, "s" * 256, "self-drive")
    long = build_reply(build_answer("c" * 128, "allow_once"))
    assert read_chat_body(long) == ChatReply("s", "c" * 128, "allow_once")


def test_the_header_names_the_session_where_the_body_does_not() -> None:
    header = {"session_header": "from-header"}
    assert read_chat_body(STREAMED, **header).session_id == "from-header"
    assert (
        read_chat_body(STREAMED | {"session_id": "from-body"}, **header).session_id == "from-body"
    )
    assert read_chat_body(STREAMED).session_id is None
    with pytest.raises(InvalidChatBody):
        read_chat_body(STREAMED, session_header="s" * 257)


def path_of(intern: Any) -> str:
    return f"/interns/{intern['id']}/chat/completions"


@pytest.mark.both
@pytest.mark.django_db
def test_chat_without_stream(farm: Farm) -> None:
    path = path_of(farm.create_running())
    said = farm.expect_refusal(400, "bad_request", "POST", path, {"messages": user()})
    assert said["message"].startswith("Invalid chat request (stream")
    assert [issue["path"] for issue in said["metadata"]["issues"]] == ["stream"]
    assert said["metadata"]["retryable"] is False
    for raw in (b"{bad", b"[]", b'"x"', b"\xff"):
        farm.expect_refusal(400, "bad_request", "POST", path, raw)
    farm.expect_refusal(413, "payload_too_large", "POST", path, STREAMED | {"x": "y" * 1_048_577})
    plain = {"Content_Type": "text/plain"}
    farm.expect_refusal(415, "unsupported_media_type", "POST", path, b"{}", **plain)
    farm.expect_refusal(400, "bad_request", "POST", path, STREAMED, X_Session_Id="s" * 257)
    assert not ChatRun.objects.exists()


@pytest.mark.both
@pytest.mark.django_db
def test_chat_on_an_intern_that_does_not_run(farm: Farm) -> None:
    made = farm.create_running()
    row = Intern.objects.filter(pk=made["id"])
    now = datetime.now(UTC)
    lease = {"lease_id": uuid4(), "lease_kind": "suspend", "operation_id": uuid4()}
    standings: Any = (
        *({"status": status} for status in ("awaiting_slack_install", "stopped")),
        *({"status": status} for status in ("failed", "destroy_failed")),
        {"status": "running", "lease_expires_at": now + timedelta(minutes=1), **lease},
    )
    for changes in standings:
        row.update(**changes)
        said = farm.expect_refusal(409, "intern_not_ready", "POST", path_of(made), STREAMED)
        assert said["message"] == "This intern is not running."
        assert said["metadata"]["retryable"] is True
