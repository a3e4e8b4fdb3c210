"""Events reach channels through the processes that are shipped: web, beat and the worker of events,
as the Procfile begins them. Nobody works the queue of long tasks, as good as one that is busy."""

import csv
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.db.models import F, Sum

from accounts.models import Account, ApiKey, LedgerEntry
from accounts.models.ledger import USAGE_KINDS
from interns.models import Intern, InternHost, WorkspaceArchive
from routing.destinations.models import Destination
from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.interns.chat.room import Orm, Room, make_intern, place
from tests.interns.chat.scripted_agent import PLACES, PointedDriver, ScriptedAgent
from tests.routing.test_watching import use
from tests.support.bed import Bed
from tests.support.certificates import write_certificate
from tests.support.gateways import StartGateway, seed_account
from tests.support.local_site import LocalSite, Running, SiteHandler
from tests.support.mail_server import MailServer, running_mail_server
from tests.support.manage import PROJECT
from tests.support.procfile import running_line
from tests.support.scripted_driver import FOLDER, ScriptedDriver
from tests.support.server import GatewayServer, as_json

pytestmark = [pytest.mark.timeout(400), pytest.mark.thorough]
# Ticks are five and fifteen seconds apart, and a lease takes a minute to end.
PATIENCE_S = 120.0
CHANNELS = "/notifications/channels"
# Four requests cost a dollar.
QUARTER = {"prompt": "0", "completion": "0", "request": "0.25"}


@dataclass
class Inbox(LocalSite):
    """What was posted to it: the path, the id, and the message. While it `hangs` it is silent."""

    posts: list[tuple[str, str, Any]] = field(default_factory=list)
    hangs: threading.Event = field(default_factory=threading.Event)
    # Paths that are answered with 500.
    broken: set[str] = field(default_factory=set)

    def kinds(self, path: str) -> set[str]:
        return {told["type"] for where, _, told in self.posts if where == path}

    def titles(self, path: str) -> list[str]:
        return [told["data"]["title"] for where, _, told in self.posts if where == path]


class _Taking(SiteHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path in self.site.broken:
            self.answer(b"", status=500)
            return
        told = orjson.loads(body)
        self.site.posts.append((self.path, self.headers["webhook-id"], told))
        if self.path == "/silent" or self.site.hangs.is_set():
            self.silence()
        else:
            self.answer(b"")


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with Running(Inbox, _Taking) as site:
        yield site


@pytest.fixture
def places() -> Iterator[Path]:
    """Of the sockets of interns, whose names are short."""
    with tempfile.TemporaryDirectory(prefix="gateway-i-") as folder:
        yield Path(folder)


@pytest.fixture
def mail_server(tmp_path: Path) -> Iterator[MailServer]:
    with running_mail_server(write_certificate(tmp_path / "mail.pem")) as mail_server:
        yield mail_server


@pytest.fixture
def server(
    tmp_path: Path,
    stores: Bed,
    simulator: SimulatedUpstream,
    places: Path,
    mail_server: MailServer,
) -> Iterator[GatewayServer]:
    ends_on = (datetime.now(UTC) + timedelta(days=3)).date().isoformat()
    first = bench.endpoint("first", pricing=QUARTER)
    models = [
        bench.model("told/first", first, expiration_date=ends_on),
        bench.model("told/unpriced", bench.endpoint("second", pricing=None)),
    ]
    with StartGateway(stores, tmp_path) as start:
        yield start.with_catalogue(
            bench.as_yaml(bench.personas(simulator), models),
            NOTIFICATION_PRIVATE_HOSTS="127.0.0.1",
            DESTINATION_PRIVATE_HOSTS="127.0.0.1",
            EMAIL_URL=f"submission://gateway:s3cret@127.0.0.1:{mail_server.port}",
            SSL_CERT_FILE=str(tmp_path / "mail.pem"),
            CREDIT_EXPIRY_DAYS="7",
            LEDGER_AUDIT_SECONDS="15",
            INTERN_RUNTIME=f"{PointedDriver.__module__}.{PointedDriver.__name__}",
            **{PLACES: str(places)},
        )


@pytest.fixture
def worker(server: GatewayServer) -> Iterator[None]:
    with running_line(server, "events"):
        yield


@pytest.fixture(autouse=True)
def beat(server: GatewayServer) -> Iterator[None]:
    with running_line(server, "beat"):
        yield


def manage(desk: Desk, method: str, path: str, status: int = 200, **body: Any) -> Any:
    answer = desk.manage(method, path, body)
    assert answer.status_code == status, answer.text
    return as_json(answer)["data"]


def open_desk(server: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    return Desk(server, simulator, seed_account(server), "told/first")


def add_webhook(desk: Desk, inbox: Inbox, path: str, **more: Any) -> str:
    fields = {"name": path, "type": "webhook", "url": f"{inbox.url}{path}"} | more
    made: str = manage(desk, "POST", CHANNELS, 201, **fields)["id"]
    return made


def test_events_arrive_beside_long_tasks_and_silent_receivers(
    server: GatewayServer, worker: None, simulator: SimulatedUpstream, inbox: Inbox
) -> None:
    simulator.clear()
    desk, others = open_desk(server, simulator), open_desk(server, simulator)
    for _ in range(12):
        add_webhook(others, inbox, "/silent")
    manage(others, "POST", "/keys", 201, name="ci")
    server.wait_until(lambda: bool(inbox.kinds("/silent")), within_s=PATIENCE_S)
    channel = add_webhook(desk, inbox, "/in")
    manage(desk, "PUT", f"/workspaces/{desk.account.workspace_id}/budgets/daily", limit_usd=1)

    manage(desk, "POST", f"{CHANNELS}/{channel}/test", 201)
    manage(desk, "POST", "/keys", 201, name="ci")
    for _ in range(4):
        desk.ok()

    def levels() -> list[int]:
        budgets = [told for path, _, told in inbox.posts if told["type"] == "budget.threshold"]
        return sorted(told["data"]["details"]["level_percent"] for told in budgets)

    server.wait_until(lambda: levels() == [50, 80, 100], within_s=PATIENCE_S)
    wanted = {"channel.test", "key.created"}
    server.wait_until(lambda: inbox.kinds("/in") >= wanted, within_s=PATIENCE_S)


def test_whatever_happens_arrives_in_every_kind_of_channel(
    server: GatewayServer,
    worker: None,
    simulator: SimulatedUpstream,
    inbox: Inbox,
    mail_server: MailServer,
    orm_of: Orm,
    places: Path,
) -> None:
    simulator.clear()
    desk = open_desk(server, simulator)
    mail_server.refusals = ["451 Try again later"]
    inbox.broken = {"/late", "/destination"}
    late = add_webhook(desk, inbox, "/late", kinds=["key.created"])
    add_webhook(desk, inbox, "/in")
    add_webhook(desk, inbox, "/slack", type="slack")
    mail = {"name": "mail", "type": "email", "recipients": ["ops@example.com"]}
    manage(desk, "POST", CHANNELS, 201, **mail)
    cause_the_end_of_a_destination(desk, inbox, orm_of)
    key = desk.account.api_key_hash
    manage(desk, "PATCH", f"/keys/{key}", limit=1)
    ends_at = f"{datetime.now(UTC) + timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}"
    other = manage(desk, "POST", "/keys", 201, name="ci", expires_at=ends_at)["hash"]
    called_by_alice = [desk.ok(user="alice")["id"] for _ in range(2)]
    run_task(server, "accounts.tasks.watch_expiries")
    assert desk.manage("POST", f"/keys/{other}/rotate", {}).status_code == 200
    with ExitStack() as stack:
        cause_the_ends_of_interns(desk, orm_of, places)
        with orm_of(server):
            wrong_nano = F("total_credits_nano") + 7
            Account.objects.filter(pk=desk.account.account_id).update(total_credits_nano=wrong_nano)
            # Usage is summed up once its hour is over.
            use(ApiKey.objects.get(hash=key), desk.model)
        # Here nothing runs, so that its round finds the running intern's runtime gone.
        server.env["INTERN_RUNTIME"] = f"{ScriptedDriver.__module__}.{ScriptedDriver.__name__}"
        server.env |= {FOLDER: str(places / "none"), "INTERN_ARCHIVE_STORE": "s3://disks"}
        for line in ("worker", "destinations", "intern-control"):
            stack.enter_context(running_line(server, line))
        see_events_arrive(desk, inbox)
    # Each as an e-mail too, once, and the one that was put off.
    server.wait_until(
        lambda: (
            sorted(message["Subject"] for message in mail_server.messages)
            == sorted(f"[Routing Gateway] {title}" for title in inbox.titles("/in"))
        ),
        within_s=PATIENCE_S,
    )
    said = [told["text"] for path, _, told in inbox.posts if path == "/slack"]
    assert any("The books disagree" in text for text in said)
    see_a_failed_delivery_sent_again(desk, inbox, late)
    see_a_user_erased_and_the_books_exported(desk, called_by_alice[0], orm_of)


def run_task(server: GatewayServer, name: str) -> None:
    """What beat does every five minutes."""
    celery = Path(sys.executable).parent / "celery"
    call = [str(celery), "-A", "gateway", "call", name, "--queue", "events"]
    subprocess.run(call, env=server.env, cwd=PROJECT, check=True, capture_output=True, timeout=60)


def cause_the_end_of_a_destination(desk: Desk, inbox: Inbox, orm_of: Orm) -> None:
    workspace = f"/workspaces/{desk.account.workspace_id}"
    manage(desk, "PATCH", workspace, is_observability_broadcast_enabled=True)
    config = {"url": f"{inbox.url}/destination"}
    fields = {"type": "webhook", "name": "broken", "config": config}
    fields["workspace_id"] = desk.account.workspace_id
    made = manage(desk, "POST", "/observability/destinations", 201, **fields)
    with orm_of(desk.server):
        Destination.objects.filter(pk=made["id"]).update(drops_in_row=99)


def cause_the_ends_of_interns(desk: Desk, orm_of: Orm, places: Path) -> None:
    """One asks something, and its runtime goes; the machine of another went an hour ago."""
    account, now = desk.account, datetime.now(UTC)
    past = now - timedelta(hours=1)
    with orm_of(desk.server):
        asking, lost = (make_intern(account, name=name) for name in ("asking", "lost"))
        Intern.objects.filter(pk=lost.pk).update(host="far", disk_host="far")
        for name, seen_at in (("far", past), ("near", now)):
            memory = {"memory_bytes": 1 << 34, "free_memory_bytes": 0}
            seen = {"alive_since": past, "last_seen_at": seen_at}
            InternHost.objects.create(name=name, home_id=uuid.uuid4(), **memory, **seen)
        WorkspaceArchive.objects.create(
            intern_id=lost.pk,
            intern_name=lost.name,
            account_id=account.account_id,
            workspace_id=account.workspace_id,
            uri="lost.tar",
            sha256="0" * 64,
            bytes=1,
            source=WorkspaceArchive.Source.STOPPED,
            boot_id=lost.boot_id,
            created_at=past,
        )
    agent = ScriptedAgent(places / "a.sock")
    place(places, asking.pk, agent)
    Room(desk.server, account, agent, asking.pk, orm_of).pause(approval_mode="manual")
    agent.stop()


def see_events_arrive(desk: Desk, inbox: Inbox) -> None:
    assert desk.post(model="told/unpriced").status_code >= 400
    desk.upstream.script("first", {"status": 503}, repeat=True)
    for _ in range(2):
        assert desk.post().status_code == 503
    wanted = {"key.created", "key.rotated", "key.limit_threshold", "key.expiring"}
    wanted |= {"credit.low", "credit.expiring", "ledger.mismatch", "destination.disabled"}
    wanted |= {"provider.down", "model.unpriced", "model.expiring"}
    wanted |= {"intern.failed", "intern.waiting", "intern.host_lost"}
    # A destination is tried for 70 s, and models are looked at each minute.
    try:
        desk.server.wait_until(lambda: inbox.kinds("/in") >= wanted, within_s=1.5 * PATIENCE_S)
    except TimeoutError:
        raise AssertionError(f"absent: {wanted - inbox.kinds('/in')}") from None
    desk.upstream.clear()

    def is_back() -> bool:
        desk.post()
        return "provider.up" in inbox.kinds("/in")

    desk.server.wait_until(is_back, within_s=PATIENCE_S)
    # Each once, whoever looks and how often.
    titles = inbox.titles("/in")
    assert sorted(titles) == sorted(set(titles))


def see_a_failed_delivery_sent_again(desk: Desk, inbox: Inbox, channel: str) -> None:
    path = f"/notifications/deliveries?channel_id={channel}&state="
    manage(desk, "PATCH", f"{CHANNELS}/{channel}", disabled=True)
    desk.server.wait_until(lambda: bool(manage(desk, "GET", f"{path}failed")), within_s=PATIENCE_S)
    (failed,) = manage(desk, "GET", f"{path}failed")
    manage(desk, "PATCH", f"{CHANNELS}/{channel}", disabled=False)
    inbox.broken.clear()
    manage(desk, "POST", f"/notifications/deliveries/{failed['id']}/resend")
    desk.server.wait_until(
        lambda: bool(manage(desk, "GET", f"{path}delivered")), within_s=PATIENCE_S
    )
    assert inbox.kinds("/late") == {"key.created"}


def see_a_user_erased_and_the_books_exported(desk: Desk, generation: str, orm_of: Orm) -> None:
    assert desk.generation(generation)["external_user"]
    erased = manage(desk, "POST", "/privacy/erasures", user="alice")
    assert erased["generations"] == 2, erased
    assert not desk.generation(generation)["external_user"]
    today = datetime.now(UTC).date()
    days = f"from={today - timedelta(days=1)}&to={today}"
    answer = desk.manage("GET", f"/activity/export?{days}&per=generation")
    lines = list(csv.DictReader(answer.text.splitlines()))
    with orm_of(desk.server):
        account_id = uuid.UUID(desk.account.account_id)
        mine = LedgerEntry.objects.filter(account=account_id, kind__in=USAGE_KINDS)
        booked_nano = mine.aggregate(total=Sum("amount_nano"))["total"]
    exported_nano = sum(int(line["charge_nano"]) for line in lines)
    assert exported_nano == booked_nano == desk.total_usage_nano() > 0


def test_an_event_outlives_the_worker_that_was_killed_while_it_sent_it(
    server: GatewayServer, simulator: SimulatedUpstream, inbox: Inbox
) -> None:
    desk = open_desk(server, simulator)
    add_webhook(desk, inbox, "/in")
    inbox.hangs.set()
    manage(desk, "POST", "/keys", 201, name="ci")

    def is_delivered() -> bool:
        return bool(manage(desk, "GET", "/notifications/deliveries?state=delivered"))

    with running_line(server, "events"):
        server.wait_until(lambda: len(inbox.posts) == 1, within_s=PATIENCE_S)
    inbox.hangs.clear()
    with running_line(server, "events"):
        server.wait_until(is_delivered, within_s=PATIENCE_S)
    # It came twice, under one id, by which a receiver knows it again.
    assert len(inbox.posts) == 2
    assert len({message_id for _, message_id, _ in inbox.posts}) == 1
