"""An account whose member keeps interns, in process; workers are the test itself."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

from django.test import Client

from accounts.authentication import forget_keys
from accounts.models import Account, Membership, User, Workspace
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account
from gateway.http.jsonio import dumps
from interns.jobs import provision, reaper, teardown
from interns.leases import InternLease
from interns.models import Intern, InternTransition, LeaseKind
from interns.runtime.driver import current_driver
from tests.support.scripted_driver import Script

JOBS = {
    LeaseKind.PROVISION: provision.provision,
    LeaseKind.SUSPEND: teardown.suspend,
    LeaseKind.DELETE: teardown.tear_down,
}
_numbers = itertools.count(1)


class Queue:
    """Messages that were published. `down` refuses them, `at_once` has them carried out while
    their sender waits. `has_worker` is what is known of who reads it, and `unread` are machines of
    which nobody does. `headers` are those of all
    messages that ever were."""

    def __init__(self, publish: Callable[[InternLease], None]) -> None:
        self._publish = publish
        self.messages: deque[InternLease] = deque()
        self.headers: list[dict[str, str]] = []
        self.down = False
        self.has_worker: bool | None = True
        self.unread: set[str] = set()
        self.at_once = False

    def list_unread(self, names: Iterable[str]) -> set[str]:
        return set(names) if self.has_worker is False else self.unread.intersection(names)

    def take(self, publish: Any) -> None:
        if self.down:
            raise ConnectionRefusedError("the queue is down")
        self.messages.append(publish._lease)
        self.headers.append(publish._headers)

    def publish(self, lease: InternLease) -> None:
        self._publish(lease)
        if self.at_once:
            self.work()

    def work(self) -> int:
        """Carry out all there is. How many there were."""
        done = 0
        while self.messages:
            carry_out(self.messages.popleft())
            done += 1
        return done


def carry_out(lease: InternLease) -> bool:
    return JOBS[LeaseKind(lease.kind)](lease, current_driver(), by="worker")


def ask_api(
    method: str, path: str, body: Any = None, *, key: str, headers: dict[str, str], **more: Any
) -> tuple[int, Any]:
    """The status and the JSON of an answer, past the cache of keys."""
    forget_keys()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    options: dict[str, Any] = {"headers": {"Authorization": f"Bearer {key}", **named}} | more
    if body is None:
        options["CONTENT_LENGTH"] = "0"
    else:
        data = body if isinstance(body, bytes | str) else dumps(body)
        raw = data.encode() if isinstance(data, str) else data
        kind = headers.get("Content_Type", "application/json")
        # The client's own stream refuses to be read in pieces.
        options |= {"data": raw, "content_type": kind, "wsgi.input": BytesIO(raw)}
    client = Client(raise_request_exception=False)
    response = client.generic(method, f"/api/v1{path}", **options)
    return response.status_code, response.json() if response.content else None


@dataclass
class Farm:
    """`key` is the member's, `admin_key` an admin's, `system_key` nobody's."""

    account: Account
    workspace: Workspace
    member: User
    key: str
    admin_key: str
    system_key: str
    management_key: str
    script: Script
    queue: Queue

    def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, **headers: str
    ) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        return ask_api(method, path, body, key=self.key if key is None else key, headers=headers)

    def ok(
        self, method: str, path: str, body: Any = None, *, status: int = 200, **more: Any
    ) -> Any:
        got, said = self.call(method, path, body, **more)
        assert got == status, (got, said)
        return said

    def expect_refusal(
        self, status: int, reason: str | None, method: str, path: str, body: Any = None, **more: Any
    ) -> Any:
        """The error of an answer that must be this refusal, and say nothing else."""
        got, said = self.call(method, path, body, **more)
        assert got == status, (got, said)
        assert set(said) == {"error"}
        assert said["error"]["code"] == status
        if reason is None:
            assert "metadata" not in said["error"]
        else:
            assert said["error"]["metadata"]["reason"] == reason
        return said["error"]

    def new(self, name: str = "", **body: Any) -> Any:
        """The object of a new intern."""
        name = name or f"intern-{next(_numbers)}"
        return self.ok("POST", "/interns", {"name": name, **body}, status=201)

    def create_running(self, name: str = "") -> Any:
        made = self.new(name)
        self.ok("POST", f"/interns/{made['id']}/provision", status=202)
        assert self.queue.work() == 1
        return self.get(made["id"])

    def create_suspended(self, name: str = "") -> Any:
        made = self.create_running(name)
        self.queue.at_once = True
        self.ok("POST", f"/interns/{made['id']}/suspend")
        self.queue.at_once = False
        return self.get(made["id"])

    def get(self, intern_id: str, *, status: int = 200) -> Any:
        return self.ok("GET", f"/interns/{intern_id}", status=status)

    def row(self, intern_id: str) -> Intern:
        return Intern.objects.select_related("workspace", "creator").get(pk=intern_id)

    def rules(self, intern_id: str) -> list[str]:
        """The rules of its moves, in order; notes left out."""
        rows = InternTransition.objects.filter(intern_id=UUID(intern_id)).exclude(rule="")
        return list(rows.order_by("pk").values_list("rule", flat=True))

    def expire(self, intern_id: str) -> None:
        """Have its lease run out."""
        past = datetime.now(UTC) - timedelta(seconds=1)
        Intern.objects.filter(pk=intern_id, lease_id__isnull=False).update(lease_expires_at=past)

    def age(self, intern_id: str) -> None:
        """Have its operation begin an hour ago."""
        since = datetime.now(UTC) - timedelta(hours=1)
        Intern.objects.filter(pk=intern_id).update(operation_since=since)

    def reap(self) -> reaper.ReapCounts:
        return reaper.reap(current_driver())


def open_farm(script: Script, queue: Queue) -> Farm:
    number = next(_numbers)
    account = open_account(name=f"farm-{number}")
    workspace = account.workspaces.get(is_default=True)
    role = Membership.Role
    member = admit_member(account=account, username=f"m-{number}", role=role.MEMBER)
    admin = admit_member(account=account, username=f"a-{number}", role=role.ADMIN)

    def key(where: Workspace | None, creator: User | None) -> str:
        return create_key(account=account, name="k", workspace=where, creator=creator)[1]

    return Farm(
        account,
        workspace,
        member,
        key(workspace, member),
        key(workspace, admin),
        key(workspace, None),
        key(None, admin),
        script,
        queue,
    )


def queue_provision(farm: Farm) -> tuple[Any, InternLease]:
    """An intern that waits for a worker, and the message of it."""
    made = farm.new()
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    return made, farm.queue.messages.popleft()
