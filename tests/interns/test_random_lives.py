"""W3: whatever is asked for, lost, repeated or broken, in whatever order: only listed moves happen,
at most one runtime runs, and every life settles."""

import contextlib
from operator import itemgetter
from typing import Any, ClassVar

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from accounts.models import ApiKey
from interns import operations
from interns.errors import InternConflict, InternNotFound, UpstreamUnavailable
from interns.jobs.prober import probe_all
from interns.jobs.reconcile import reconcile
from interns.leases import InternLease
from interns.machine import MoveRule, assert_allowed
from interns.models import Intern, InternTransition, Status, Vault, WorkspaceArchive
from interns.runtime.driver import current_driver
from tests.interns.farm import Farm, carry_out
from tests.support.scripted_driver import WorkerDied

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.thorough]
UNDER_WAY = {Status.QUEUED, Status.PROVISIONING, Status.DESTROYING}
CODES = {
    "start": "image_unavailable",
    "stop": "runtime_teardown_failed",
    "destroy": "runtime_teardown_failed",
    "archive": "workspace_archive_failed",
    "health": "",
}
BROKEN = {"error": "broken"}
FAULTS = st.sampled_from([BROKEN, {"die": "before"}, {"die": "after"}, BROKEN])
WHICH = st.integers(0, 1)


class Lives(RuleBasedStateMachine):
    """Two interns of one member, and everything that happens to them."""

    farm: ClassVar[Farm]

    def __init__(self) -> None:
        super().__init__()
        self.farm.queue.messages.clear()
        self.farm.queue.down = False
        self.farm.script.forget()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.interns = [self.farm.new(f"life-{number}")["id"] for number in range(2)]
        self.seen: list[InternLease] = []

    # --- What callers ask for

    @rule(which=WHICH)
    def provision(self, which: int) -> None:
        self._ask(lambda pk: operations.provision(pk, by="caller"), which)

    @rule(which=WHICH)
    def suspend(self, which: int) -> None:
        self._ask(lambda pk: operations.begin_suspend(pk, by="caller"), which)

    @rule(which=WHICH, acknowledged=st.booleans())
    def delete(self, which: int, acknowledged: bool) -> None:
        self._ask(lambda pk: operations.delete(pk, by="caller", acknowledged=acknowledged), which)

    def _ask(self, work: Any, which: int) -> None:
        rows = Intern.objects.filter(pk=self.interns[which]).values()
        before = rows.all().first()
        try:
            work(self.interns[which])
        except (InternConflict, InternNotFound):
            assert rows.all().first() == before
        except UpstreamUnavailable:
            after = rows.all().first()
            assert before is not None
            assert after is not None
            kept = itemgetter("status", "last_failure_message", "progress_step", "hostname")
            assert kept(after) == kept(before)
            # Also where it had a lease that was over.
            assert after["lease_id"] is None

    # --- What becomes of messages

    @rule(number=st.integers(0, 3))
    def deliver(self, number: int) -> None:
        if self.farm.queue.messages:
            self.farm.queue.messages.rotate(-number)
            message = self.farm.queue.messages.popleft()
            self.seen.append(message)
            self._work(message)

    @rule(number=st.integers(0, 9))
    def deliver_again(self, number: int) -> None:
        if self.seen:
            self._work(self.seen[number % len(self.seen)])

    @rule()
    def lose_a_message(self) -> None:
        if self.farm.queue.messages:
            self.seen.append(self.farm.queue.messages.popleft())

    @rule(down=st.booleans())
    def break_the_queue(self, down: bool) -> None:
        self.farm.queue.down = down

    def _work(self, message: InternLease) -> None:
        with contextlib.suppress(WorkerDied):
            carry_out(message)

    # --- What goes wrong

    @rule(method=st.sampled_from(sorted(CODES)), fault=FAULTS)
    def break_a_step(self, method: str, fault: dict[str, Any]) -> None:
        self.farm.script.fail(method, {**fault, "code": CODES[method]})

    @rule(which=WHICH)
    def lose_a_runtime(self, which: int) -> None:
        self.farm.script.lose(self.interns[which])

    # --- What looks after all that

    @rule()
    def time_passes(self) -> None:
        for intern_id in self.interns:
            self.farm.expire(intern_id)

    @rule()
    def reap(self) -> None:
        self._round(self.farm.reap)

    @rule()
    def probe(self) -> None:
        self._round(lambda: probe_all(current_driver()))

    @rule()
    def reconcile(self) -> None:
        self._round(lambda: reconcile(current_driver()))

    def _round(self, work: Any) -> None:
        with contextlib.suppress(WorkerDied):
            work()

    # --- What always holds

    @invariant()
    def only_listed_moves_happened(self) -> None:
        for intern_id in self.interns:
            at = ""
            for row in InternTransition.objects.filter(intern_id=intern_id).order_by("pk"):
                assert row.from_status == at
                if row.rule:
                    assert_allowed(MoveRule(row.rule), row.from_status, row.to_status)
                at = row.to_status
            status = Intern.objects.filter(pk=intern_id).values_list("status", flat=True).first()
            assert at == (status or "")

    @invariant()
    def nothing_is_removed_before_it_is_archived(self) -> None:
        disks = self.farm.script.read()["disks"]
        for intern_id in self.interns:
            booted = InternTransition.objects.filter(intern_id=intern_id, why="step 4").exists()
            if booted and intern_id not in disks:
                kept = WorkspaceArchive.objects.filter(intern_id=intern_id).exists()
                said = InternTransition.objects.filter(intern_id=intern_id, rule="T19").exists()
                assert kept or said

    def teardown(self) -> None:
        try:
            self._settle()
        finally:
            transaction.set_rollback(True)
            self.atomic.__exit__(None, None, None)

    def _settle(self) -> None:
        self.farm.script.heal()
        self.farm.queue.down = False
        for _ in range(4):
            while self.farm.queue.messages:
                self._work(self.farm.queue.messages.popleft())
            self.time_passes()
            self.farm.reap()
        probe_all(current_driver())
        reconcile(current_driver())
        rows = {str(row.pk): row for row in Intern.objects.all()}
        assert not {row.status for row in rows.values()} & UNDER_WAY
        assert all(row.lease_id is None for row in rows.values())
        wanted = {pk: str(row.boot_id) for pk, row in rows.items() if row.status == Status.RUNNING}
        assert self.farm.script.runtimes() == wanted
        self._nothing_is_left_of_the_others(rows)

    def _nothing_is_left_of_the_others(self, rows: dict[str, Intern]) -> None:
        gone = [intern_id for intern_id in self.interns if intern_id not in rows]
        assert not set(gone) & set(self.farm.script.read()["disks"])
        assert not ApiKey.objects.living().filter(intern_id__in=gone).exists()
        assert not Vault.objects.filter(intern_id__in=gone).exists()


def lives(farm: Farm, *, examples: int, steps: int) -> None:
    Lives.farm = farm
    checks = list(HealthCheck)
    counts: Any = {"max_examples": examples, "stateful_step_count": steps}
    options = settings(**counts, deadline=None, print_blob=True, suppress_health_check=checks)
    run_state_machine_as_test(Lives, settings=options)


@pytest.mark.timeout(240)
def test_every_life_settles(farm: Farm) -> None:
    lives(farm, examples=15, steps=30)


@pytest.mark.nightly
def test_a_thousand_lives_settle(farm: Farm) -> None:
    lives(farm, examples=1000, steps=40)
