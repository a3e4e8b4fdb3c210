"""From reports to messages: which generations a destination is sent."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from accounts.models import Workspace
from accounts.services.records import SYSTEM
from routing.destinations.broadcaster import Broadcaster, build_facts, is_wanted
from routing.destinations.facts import unpack_batch
from routing.destinations.models import REGIONS
from routing.destinations.queueing import (
    CHARS_MAX,
    MESSAGES_PER_QUEUE_MAX,
    TRACES_MAX,
    Message,
    find_queues,
    publish_messages,
    split_traces,
)
from routing.destinations.selection import DestinationSummary, WorkspaceDestinations
from routing.destinations.services import create_destination
from routing.history.content_draft import ContentDraft
from routing.reports.report import RequestReport
from tests.routing.destinations.examples import CALLER, facts
from tests.support.management import manager
from tests.support.metrics import read_number
from tests.support.valkey import ValkeyServer

AT = datetime(2026, 5, 4, 10, 42, 7, tzinfo=UTC)
RECORD: dict[str, Any] = {
    "api_type": "completions",
    "model": "acme/small",
    "provider_name": "Acme",
    "error_type": None,
    "finish_reason": "stop",
    "tokens_prompt": 12,
    "tokens_completion": 3,
    "tokens_reasoning": 0,
    "tokens_cached": 0,
    "charge_nano": 5,
    "upstream_cost_nano": 4,
    "is_byok": False,
    "latency_ms": None,
    "session_id": None,
    "external_user": None,
    "detail": '{"app_title":"Bot","http_referer":null,"user_agent":"curl"}',
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
PLAIN = RequestReport(
    ended_at=AT,
    started=1.0,
    ended=1.25,
    identity=None,
    caller=CALLER,
    format="chat",
    requested_model="acme/latest",
    streamed=False,
    status=200,
    generation_id="gen-1",
    record=RECORD,
)
EVERYTHING = DestinationSummary("d", 1, None, frozenset(REGIONS), wants_content=True)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ValkeyServer]:
    from gateway.celery import app

    # Celery's stubs have its settings read-only, and its pool of connections without its methods.
    conf: Any = app.conf
    pool: Any = app.pool
    server, before = ValkeyServer(tmp_path / "v"), conf.broker_url
    server.start()
    conf.broker_url = server.url.replace("unix://", "redis+socket://")
    yield server
    conf.broker_url = before
    pool.force_close_all()
    server.stop()


class Sent:
    """A queue with room for so many messages."""

    def __init__(self, room: int = 100) -> None:
        self.messages: list[Message] = []
        self._room = room

    def __call__(self, messages: Sequence[Message]) -> list[Message]:
        self.messages += messages[: self._room]
        return list(messages[self._room :])


def draft(*messages: Any, text: str = "The sky.") -> ContentDraft:
    made = ContentDraft("gen-1", UUID(int=1), AT, list(messages), 0, 1_000_000, is_logged=False)
    made.add({"content": text})
    return made


def count_lost(reason: str) -> float:
    return read_number("gateway_destination_traces_lost_total", reason=reason)


def session(name: str | None, generation_id: str = "gen-1") -> RequestReport:
    record = RECORD | {"session_id": name}
    return PLAIN._replace(record=record, generation_id=generation_id)


def test_a_sample_is_of_sessions_and_of_generations_without_one() -> None:
    half = EVERYTHING._replace(sampling_rate=0.5)
    names = [f"s-{number}" for number in range(100)]
    chosen = {name for name in names if is_wanted(half, session(name))}
    assert 20 < len(chosen) < 80
    assert {name for name in names if is_wanted(half, session(name, "gen-other"))} == chosen
    assert {name for name in names if is_wanted(half, session(None, name))} == chosen
    # A smaller share is a part of a larger one.
    quarter = half._replace(sampling_rate=0.25)
    assert {name for name in names if is_wanted(quarter, session(name))} < chosen


def test_keys_that_are_not_named_are_not_sent() -> None:
    assert is_wanted(EVERYTHING._replace(keys=frozenset({7})), PLAIN)
    assert not is_wanted(EVERYTHING._replace(keys=frozenset({8})), PLAIN)


def test_content_has_no_media_and_is_cut(settings: Any) -> None:
    settings.DESTINATION_CONTENT_CHARS = 1024
    long = {"role": "user", "content": "x" * 2_000}
    seen = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, IMAGE]}

    made = build_facts(PLAIN._replace(content=draft(seen, long)))

    assert made.input is not None
    texts = [{"type": "text", "text": text} for text in ("What is it?", "[image_url left out]")]
    assert made.input[0] == {"role": "user", "content": texts}
    assert len(made.input[1]["content"]) < 1024
    assert made.output == {"role": "assistant", "content": "The sky."}


def test_a_report_becomes_facts() -> None:
    made = build_facts(PLAIN._replace(trace={"team": "blue"}))

    assert (made.ended_ns - made.started_ns, made.charge_nano) == (250_000_000, 5)
    assert made.trace == {"team": "blue"}
    assert made.context == {
        "request_id": None,
        "format": "chat",
        "streamed": False,
        "app_title": "Bot",
        "referer": None,
        "user_agent": "curl",
    }
    assert (made.input, made.output) == (None, None)


def test_a_message_is_bounded_in_traces_and_in_content() -> None:
    many = [facts(generation_id=f"{number}") for number in range(TRACES_MAX + 1)]
    large = facts(input=[{"role": "user", "content": "x" * (CHARS_MAX - 300)}])

    assert [len(part) for part in split_traces(many)] == [TRACES_MAX, 1]
    assert [len(part) for part in split_traces([large, large, facts()])] == [1, 2]


@pytest.mark.django_db
def test_enabled_destinations_of_the_workspace_get_what_they_want() -> None:
    mine = manager("broadcasting")
    workspace = Workspace.objects.get()
    caller = replace(CALLER, account_id=mine.account.pk, workspace_id=workspace.pk)

    def hook(name: str, **fields: Any) -> str:
        made = create_destination(
            account_id=mine.account.pk,
            workspace_id=None,
            type="webhook",
            name=name,
            config={"url": "https://hooks.example"},
            by=SYSTEM,
            **fields,
        )
        return str(made.row.pk)

    everything, private = hook("all"), hook("private", privacy_mode=True)
    hook("off", enabled=False)
    sent = Sent()
    sender = Broadcaster(WorkspaceDestinations(), sent)
    content = draft({"role": "user", "content": "What is up?"})
    report = PLAIN._replace(caller=caller, content=content)
    elsewhere = replace(caller, workspace_id=UUID(int=9))

    sender.observe(
        [
            report,
            report._replace(generation_id="gen-2"),
            report._replace(record=None),
            report._replace(caller=replace(caller, broadcasts=False)),
            report._replace(caller=None),
            report._replace(caller=elsewhere),
        ]
    )
    sender.send()

    got = {
        each.destination_id: unpack_batch(each.batch, each.destination_id) for each in sent.messages
    }
    assert got.keys() == {everything, private}
    assert [each.generation_id for each in got[everything]] == ["gen-1", "gen-2"]
    assert got[everything][0].input == [{"role": "user", "content": "What is up?"}]
    assert got[private][0].input is None
    sender.send()
    assert len(sent.messages) == 2


@pytest.mark.django_db
def test_whether_content_is_wanted_is_known_without_a_question() -> None:
    mine, now = manager("asking"), [100.0]
    workspace_id = mine.account.workspaces.get().pk
    destinations = WorkspaceDestinations(lambda: now[0])

    # Of a workspace that nobody has read yet it may be.
    assert destinations.may_want_content(workspace_id)
    assert destinations.load(workspace_id) == ()
    assert not destinations.may_want_content(workspace_id)
    create_destination(
        account_id=mine.account.pk,
        workspace_id=None,
        type="webhook",
        name="w",
        config={"url": "https://hooks.example"},
        by=SYSTEM,
    )
    now[0] += 2.5
    assert destinations.may_want_content(workspace_id)
    assert len(destinations.load(workspace_id)) == 1
    assert destinations.may_want_content(workspace_id)


def test_what_finds_no_room_is_dropped_and_counted() -> None:
    before = [count_lost(reason) for reason in ("queue_full", "broker")]

    class Full(WorkspaceDestinations):
        def load(self, workspace_id: UUID) -> tuple[DestinationSummary, ...]:
            return (EVERYTHING,)

    sender = Broadcaster(Full(), Sent(room=0))
    sender.observe([PLAIN, PLAIN])
    sender.send()
    assert sender.dropped == 2

    def fail_store(messages: Sequence[Message]) -> list[Message]:
        raise OSError("canary")

    broken = Broadcaster(Full(), fail_store)
    broken.observe([PLAIN])
    broken.send()
    assert broken.dropped == 1
    after = [count_lost(reason) for reason in ("queue_full", "broker")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [2, 1]


def test_a_workspace_that_fills_its_queues_leaves_room_to_others(broker: ValkeyServer) -> None:
    """A real broker, which no worker empties."""
    noisy, quiet = UUID(int=1), UUID(int=2)
    assert set(find_queues(noisy)) != set(find_queues(quiet))
    many = [Message(noisy, "d", "sealed", 1)] * (3 * MESSAGES_PER_QUEUE_MAX)

    assert len(publish_messages(many)) == MESSAGES_PER_QUEUE_MAX
    assert len(publish_messages(many)) == len(many)
    assert publish_messages([Message(quiet, "e", "sealed", 1)] * MESSAGES_PER_QUEUE_MAX) == []
