"""Interns of a view: the board, and everything that may be seen of one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404

from accounts.models import ApiKey, User
from accounts.roles import Action
from accounts.services.key_limits import read_usages
from console.queries.keys import RESET_WORDS, list_workspaces_for_keys
from console.scope import Scope, widen_scope
from console.words import Badge
from gateway.database.db import release_connection
from interns.keys import read_budget
from interns.leases import is_pickup_overdue
from interns.machine import STEPS, WAITING_TEXT
from interns.models import (
    ChatInteraction,
    ChatRun,
    Intern,
    InternTransition,
    Status,
    WorkspaceArchive,
)
from interns.reach import measure_disk_of, reach_agents
from interns.runtime.disk import DiskUse
from interns.runtime.driver import SessionTurn
from interns.vault.effective_secrets import (
    AttachedVaultGone,
    EffectiveSecret,
    read_effective_secrets,
)

BOARD_MAX: Final = 200
_LOG_LINES: Final = 100
_BOARD: Final = (
    ("Running", (Status.RUNNING,)),
    ("On the way", (Status.QUEUED, Status.PROVISIONING, Status.DESTROYING)),
    ("At rest", (Status.STOPPED, Status.AWAITING_SLACK_INSTALL)),
    ("Needs somebody", (Status.FAILED, Status.DESTROY_FAILED)),
)
_TONES: Final[Mapping[str, str]] = {
    Status.RUNNING: "good",
    Status.QUEUED: "warn",
    Status.PROVISIONING: "warn",
    Status.DESTROYING: "warn",
    Status.FAILED: "bad",
    Status.DESTROY_FAILED: "bad",
}
_OPEN: Final = (ChatRun.State.RUNNING, ChatRun.State.WAITING)


class Spend(NamedTuple):
    """What an intern's key spent in the window of its budget; no budget is None."""

    spent_nano: int = 0
    budget_nano: int | None = None
    reset: str | None = None

    @property
    def percent(self) -> int | None:
        if self.budget_nano is None:
            return None
        return (
            min(100, round(100 * self.spent_nano / self.budget_nano)) if self.budget_nano else 100
        )

    @property
    def window(self) -> str:
        return RESET_WORDS.get(self.reset or "", "in all")


class InternCard(NamedTuple):
    """An intern on the board, with the run that is open, if any."""

    intern: Intern
    run: ChatRun | None
    spend: Spend
    now: datetime

    @property
    def status(self) -> Badge:
        status = Status(self.intern.status)
        return Badge(_TONES.get(status, "plain"), status.label.lower())

    @property
    def doing(self) -> str:
        """What it does now, in a few words."""
        intern = self.intern
        if is_pickup_overdue(intern, self.now):
            return WAITING_TEXT
        if intern.progress_step:
            step = STEPS[intern.progress_step - 1]
            return f"Step {intern.progress_step} of {len(STEPS)}: {step}"
        if self.run is not None:
            waits = self.run.state == ChatRun.State.WAITING
            who = self.run.by.username if self.run.by else "somebody"
            return f"Waits for an answer from {who}" if waits else f"Works for {who}"
        if intern.status == Status.RUNNING:
            return "Waits for work"
        return drop_code(intern.last_failure_message or intern.status_reason)

    @property
    def age(self) -> timedelta:
        return self.now - self.intern.status_since


def drop_code(reason: str) -> str:
    """The words of a reason such as `budget_ended: the intern's budget is used up`."""
    code, _, words = reason.partition(": ")
    return words.capitalize() if "_" in code and code.isidentifier() else reason


class BoardColumn(NamedTuple):
    """Interns of statuses that belong together."""

    title: str
    cards: list[InternCard]


def filter_interns(scope: Scope, rows: QuerySet[Intern]) -> QuerySet[Intern]:
    """Those of the view; "my keys" are the interns one made."""
    rows = rows.filter(workspace__account=scope.account)
    if scope.view.is_own:
        return rows.filter(creator=scope.user.pk)
    if scope.view.workspace_ids is not None:
        return rows.filter(workspace__in=scope.view.workspace_ids)
    return rows


def select_interns(scope: Scope, text: str = "", status: str = "") -> QuerySet[Intern]:
    """The view's interns whose name has the text. People who may have a key in a workspace see its
    interns, as in the API."""
    rows = Intern.objects.filter(workspace__in=list_workspaces_for_keys(scope))
    if text:
        rows = rows.filter(name__icontains=text)
    if status:
        rows = rows.filter(status=status)
    return filter_interns(scope, rows.select_related("workspace", "creator", "api_key"))


def list_board(scope: Scope, now: datetime) -> list[BoardColumn]:
    """The view's interns, the newest first in each column."""
    cards = build_cards(list(select_interns(scope).order_by("-created_at")[:BOARD_MAX]), now)
    return [
        BoardColumn(title, [card for card in cards if card.intern.status in statuses])
        for title, statuses in _BOARD
    ]


def build_cards(interns: Sequence[Intern], now: datetime) -> list[InternCard]:
    open_runs = ChatRun.objects.filter(intern__in=interns, state__in=_OPEN).select_related("by")
    runs = {run.intern_id: run for run in open_runs}
    spends = read_spends(interns, now)
    return [InternCard(each, runs.get(each.pk), spends[each.pk], now) for each in interns]


def read_spends(interns: Sequence[Intern], now: datetime) -> dict[UUID, Spend]:
    """By intern. One without a key has spent nothing yet."""
    keys: list[ApiKey] = [each.api_key for each in interns if each.api_key is not None]
    usages = read_usages(keys=keys, at=now)
    spends = {}
    for intern in interns:
        key = intern.api_key
        if key is None:
            spends[intern.pk] = Spend(0, *read_budget(intern))
        else:
            counted = usages[key.pk].counted_nano(key)
            spends[intern.pk] = Spend(counted, key.limit_nano, key.limit_reset)
    return spends


class InternMove(NamedTuple):
    """Something that happened to an intern, and who did it by the name that people know."""

    row: InternTransition
    by: str

    @property
    def words(self) -> str:
        source, target = self.row.from_status, self.row.to_status
        if source == target:
            return target.replace("_", " ")
        return f"{source or 'made'} → {target or 'gone'}".replace("_", " ")

    @property
    def why(self) -> str:
        """The reason; of a step of its boot, what is done in it."""
        kind, _, number = self.row.why.partition(" ")
        if kind == "step" and number.isdecimal() and 0 < int(number) <= len(STEPS):
            return STEPS[int(number) - 1]
        return drop_code(self.row.why)


def build_moves(rows: Sequence[InternTransition]) -> list[InternMove]:
    ids = {row.by.partition(" ")[0] for row in rows}
    names = dict(User.objects.filter(public_id__in=ids).values_list("public_id", "username"))
    moves = []
    for row in rows:
        # `user_1 with key 3` becomes `ada with key 3`.
        public_id, _, rest = row.by.partition(" ")
        if public_id == "worker":
            public_id, rest = "the gateway", rest.partition(" ")[2]
        name = names.get(public_id, public_id)
        moves.append(InternMove(row, f"{name} {rest}".strip()))
    return moves


@dataclass(frozen=True)
class InternDetail:
    """One intern and what belongs to it."""

    intern: Intern
    scope: Scope
    now: datetime

    @cached_property
    def card(self) -> InternCard:
        return build_cards([self.intern], self.now)[0]

    @cached_property
    def may_edit(self) -> bool:
        """Its creator, who leads the workspace, and admins: as in the API."""
        if self.intern.creator_id == self.scope.user.pk:
            return True
        return self.scope.allows_in(Action.OTHERS_INTERNS, self.intern.workspace_id)

    @cached_property
    def may_talk(self) -> bool:
        """With a key of the person's own, which takes a member."""
        return self.intern.status == Status.RUNNING and self.scope.is_member

    @cached_property
    def question(self) -> ChatInteraction | None:
        """What its open run waits for."""
        if self.card.run is None or self.card.run.state != ChatRun.State.WAITING:
            return None
        rows = ChatInteraction.objects.select_related("run__session").filter(
            run__intern=self.intern.pk,
            run__state=ChatRun.State.WAITING,
            state=ChatInteraction.State.PENDING,
        )
        return rows.order_by("-asked_at").first()

    @property
    def runs(self) -> QuerySet[ChatRun]:
        return ChatRun.objects.filter(intern=self.intern.pk).select_related("session", "by")

    def find_session(self, named: str | None) -> str | None:
        """The id of the conversation that the page shows. It is that of the person's own open
        question, else the named one, else the last in which the person had a turn. None shows none,
        as an empty name does. As through the API, who may talk to the intern goes on with any of
        its conversations. For a name that it does not know it raises `Http404`."""
        me = self.scope.user.pk
        if self.question is not None and self.question.run.by_id == me:
            return self.question.run.session.session_id
        if named == "":
            return None
        runs = self.runs.filter(session__session_id=named) if named else self.runs.filter(by=me)
        found = runs.order_by("-started_at").values_list("session__session_id", flat=True).first()
        if named and found is None:
            raise Http404
        return found

    def read_turns(self, session_id: str) -> list[SessionTurn] | None:
        """What was said in it, as the intern remembers it; None where it does not say."""
        # The intern is asked, who may be slow.
        release_connection()
        return reach_agents(self.intern).read_conversation(self.intern.pk, session_id)

    @property
    def moves(self) -> QuerySet[InternTransition]:
        return InternTransition.objects.filter(intern_id=self.intern.pk)

    @cached_property
    def secrets(self) -> list[EffectiveSecret] | None:
        """Names and hosts, never values. None where the vault that it borrows is gone."""
        try:
            return read_effective_secrets(self.intern)
        except AttachedVaultGone:
            return None

    @cached_property
    def archives(self) -> list[WorkspaceArchive]:
        rows = WorkspaceArchive.objects.filter(intern_id=self.intern.pk)
        return list(rows.order_by("-created_at")[:5])

    @cached_property
    def disk(self) -> DiskUse | None:
        release_connection()
        return measure_disk_of(self.intern)

    @cached_property
    def log(self) -> list[str]:
        # A container's engine is asked for it.
        release_connection()
        return reach_agents(self.intern).log_tail(self.intern.pk, lines=_LOG_LINES)


def find_intern(seen: Scope, intern_id: UUID, now: datetime) -> InternDetail:
    """The intern of that id. Raises `Http404` where the person may not see it."""
    rows = Intern.objects.select_related("workspace", "creator", "api_key")
    intern = get_object_or_404(rows, pk=intern_id)
    scope = widen_scope(seen, intern.workspace.account_id)
    if intern.workspace_id not in {each.pk for each in list_workspaces_for_keys(scope)}:
        raise Http404
    return InternDetail(intern, scope, now)
