"""What is kept of prompts and answers, and for whom."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.caller import Caller, IoLogging, read_caller
from accounts.models import Membership
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account
from gateway.database.db import DATABASE_GONE
from gateway.http.errors import GatewayError, NotFound
from gateway.http.jsonio import dumps
from gateway.sealing import UnsealError, seal_bytes, unseal_bytes
from routing.formats.chat.request import parse_chat
from routing.history import content_writer, contents
from routing.history.content_draft import ContentDraft, is_sampled, start_draft
from routing.history.contents import (
    TRUNCATED,
    OnlyAdmins,
    build_content,
    build_sealed_row,
    forget_old,
    read_content,
    store,
    trim_value,
)
from routing.history.models import GenerationContent
from routing.metering.models import Generation
from routing.selection.types import NO_POLICY, Policy
from tests.routing.callers import CALLER
from tests.support.operations import generation

NOW = datetime.now(UTC)
SAID = [{"role": "user", "content": "Hello there"}]
texts = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=50)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=8), inner, max_size=5)
    ),
    max_leaves=30,
)


def draft(generation_id: str = "gen-1", **fields: Any) -> ContentDraft:
    usual: dict[str, Any] = {"account_id": uuid4(), "created_at": NOW, "messages": SAID}
    return ContentDraft(generation_id, **usual | {"media_parts": 0, "chars_left": 1000} | fields)


def build(of: ContentDraft, chars_max: int = 1000) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dumps(build_content(of, chars_max=chars_max)))
    return found


def test_deltas_come_together() -> None:
    one = draft()
    for delta in (
        {"content": "Hel", "reasoning": "Hm"},
        {"content": "lo", "reasoning_content": "."},
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
        {"content": None, "tool_calls": "odd"},
    ):
        one.add(delta)
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    output = {"completion": "Hello", "reasoning": "Hm.", "tool_calls": [call]}
    assert build(one) == {"input": {"messages": SAID}, "output": output, "error": None}


def test_what_another_endpoint_said_before_and_hidden_reasoning_are_not_kept() -> None:
    one = draft()
    one.add({"content": "First", "reasoning": "Hm"})
    one.begin()
    one.add({"content": "Second"})
    assert build(one)["output"] == {"completion": "Second", "reasoning": None}
    hidden = draft(hides_reasoning=True)
    hidden.set_answer({"content": "Yes", "reasoning": "Hm"})
    assert build(hidden)["output"] == {"completion": "Yes", "reasoning": None}


def test_long_answers_are_cut() -> None:
    one = draft(chars_left=5)
    one.add({"content": "Hell"})
    one.add({"content": "o there"})
    one.add({"tool_calls": [{"function": {}}]})
    built = build(one)
    assert built["output"] == {"completion": "Hello", "reasoning": None}
    assert built["truncated"] is True


def test_an_error_is_told_as_the_caller_was() -> None:
    one = draft()
    raw = {"provider_name": "Alpha", "raw": "{}", "previous_errors": [{"status": 503}]}
    one.set_error(GatewayError("Broken", metadata=raw))
    assert build(one)["error"] == {"message": "Broken", "status": 500, **raw}


@given(value=texts, chars_max=st.integers(0, 300))
def test_trimming_keeps_the_shape_and_the_bound(value: Any, chars_max: int) -> None:
    trimmed, whole = trim_value(value, chars_max)
    assert (trimmed == value) or not whole
    # Marks stand for what was cut, once for each text that was begun.
    shown = len(json.dumps(trimmed, ensure_ascii=False).replace(TRUNCATED, ""))
    assert shown <= 8 * (chars_max + 60)
    assert trim_value(value, 10_000) == (value, True)


def caller(logging: IoLogging | None = IoLogging(1.0)) -> Caller:  # noqa: B008 - A plain value.
    return replace(CALLER, io_logging=logging)


@pytest.mark.parametrize(
    ("logging", "policy", "is_kept"),
    [
        (IoLogging(1.0), NO_POLICY, True),
        (None, NO_POLICY, False),
        (IoLogging(1.0), Policy(zdr=True), False),
        (IoLogging(1.0), Policy(region="europe"), False),
        (IoLogging(1e-4), NO_POLICY, False),
    ],
)
def test_who_is_logged(logging: IoLogging | None, policy: Policy, is_kept: bool) -> None:
    chat = parse_chat({"model": "a/b", "messages": SAID, "session_id": "b"}, session_header=None)
    usual: dict[str, Any] = {"generation_id": "gen-1", "created_at": NOW, "bytes_max": 1000}
    assert (start_draft(caller(logging), chat, policy, **usual) is not None) is is_kept


@given(identity=st.text(min_size=1), rate=st.floats(0.0001, 1))
def test_a_session_is_always_or_never_among_a_share(identity: str, rate: float) -> None:
    assert is_sampled(identity, rate) == is_sampled(identity, rate)
    assert is_sampled(identity, 1)
    # What a small share has, a larger one has too.
    assert is_sampled(identity, rate) <= is_sampled(identity, min(1, rate * 2))


def test_a_share_is_about_as_large_as_it_says() -> None:
    among = sum(is_sampled(f"session {number}", 0.1) for number in range(10_000))
    assert 850 < among < 1150


@pytest.mark.django_db
@pytest.mark.both
def test_the_workspace_says_whose_requests_are_logged() -> None:
    account = open_account(name="a")
    workspace = account.workspaces.get()
    keys = [create_key(account=account, name=name, workspace=workspace)[0] for name in "ko"]

    def wishes(**settings: Any) -> list[IoLogging | None]:
        for name, value in settings.items():
            setattr(workspace, name, value)
        workspace.save()
        return [found.io_logging for key in keys if (found := read_caller(key.hash))]

    half = IoLogging(0.5)
    assert wishes() == [None, None]
    on = {"is_observability_io_logging_enabled": True, "io_logging_sampling_rate": 0.5}
    assert wishes(**on) == [half, half]
    assert wishes(io_logging_api_key_ids=[keys[0].pk]) == [half, None]


def test_sealed_bytes_open_in_their_row_only() -> None:
    sealed = seal_bytes(b"secret", purpose="p", row="1")
    assert b"secret" not in sealed
    assert unseal_bytes(sealed, purpose="p", row="1") == b"secret"
    for purpose, row, value in [("q", "1", sealed), ("p", "2", sealed), ("p", "1", sealed[:-1])]:
        with pytest.raises(UnsealError):
            unseal_bytes(value, purpose=purpose, row=row)
    with pytest.raises(UnsealError):
        unseal_bytes(b"v2:" + sealed[3:], purpose="p", row="1")


@pytest.fixture
def stored_content(db: None) -> tuple[Caller, str]:
    """A member's key of an organization's workspace, and a generation of which there is content."""
    account = open_account(name="a")
    workspace = account.workspaces.get()
    admit_member(account=account, username="boss", role=Membership.Role.ADMIN)
    member = admit_member(account=account, username="member", role=Membership.Role.MEMBER)
    key, _ = create_key(account=account, name="k", workspace=workspace, creator=member)
    owner = {"account": account, "workspace": workspace, "api_key": key}
    generation(id="gen-kept", **owner, created_at=NOW)
    store([build_sealed_row(draft("gen-kept", account_id=account.pk))])
    found = read_caller(key.hash)
    assert found is not None
    return found, "gen-kept"


@pytest.mark.both
def test_in_an_organization_only_admins_keys_read(stored_content: tuple[Caller, str]) -> None:
    mine, generation_id = stored_content
    with pytest.raises(OnlyAdmins):
        read_content(mine, generation_id)
    Membership.objects.filter(user__public_id=mine.creator_id).update(role="org:admin")
    assert json.loads(dumps(read_content(mine, generation_id)))["input"] == {"messages": SAID}
    Membership.objects.filter(user__public_id=mine.creator_id).update(role="org:member")
    Membership.objects.exclude(user__public_id=mine.creator_id).delete()
    # A person's own account.
    assert read_content(mine, generation_id)


@pytest.mark.both
def test_a_row_is_sealed_and_stored_once(stored_content: tuple[Caller, str]) -> None:
    before = GenerationContent.objects.values().get()
    assert b"Hello" not in bytes(before["sealed"])
    assert bytes(before["sealed"]).startswith(b"v1:")
    store([build_sealed_row(draft(stored_content[1]))])
    assert GenerationContent.objects.values().get() == before


@pytest.mark.both
def test_contents_go_after_their_days(
    stored_content: tuple[Caller, str], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "_PURGED_AT_ONCE", 2)
    settings.GENERATION_CONTENT_DAYS = 3
    store(
        [
            build_sealed_row(draft(f"gen-{n}", created_at=NOW - timedelta(days=n)))
            for n in range(1, 7)
        ]
    )
    assert forget_old(NOW) == 3
    left = set(GenerationContent.objects.values_list("pk", flat=True))
    assert left == {"gen-kept", "gen-1", "gen-2", "gen-3"}


@pytest.mark.both
def test_content_without_its_record_is_not_there(stored_content: tuple[Caller, str]) -> None:
    mine, generation_id = stored_content
    Membership.objects.update(role="org:admin")
    for wrong in ("gen-nowhere", "gen-\x00"):
        with pytest.raises(NotFound):
            read_content(mine, wrong)
    Generation.objects.filter(pk=generation_id).delete()
    with pytest.raises(NotFound):
        read_content(mine, generation_id)


def test_what_does_not_fit_is_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written: list[Any] = []
    mine = content_writer.ContentWriter(write=written.extend)
    monkeypatch.setattr(content_writer, "QUEUE_CHARS_MAX", 20)
    mine.queue(draft())
    for content in ([{"type": "text", "text": "x" * 30}], "x" * 30):
        mine.queue(draft(messages=[{"role": "user", "content": content}]))
    assert (len(written), mine.dropped) == (1, 2)
    assert caplog.text.count("Contents are not stored, 1 so far") == 1


@pytest.mark.parametrize("error", [DATABASE_GONE[0]("gone"), RuntimeError("a bug")])
def test_an_error_stays_beside_the_answer(error: Exception) -> None:
    def broken(rows: Any) -> None:
        raise error

    mine = content_writer.ContentWriter(write=broken)
    mine.queue(draft())
    assert mine.dropped == 1
