"""Keys of a view with what they spent, and where somebody may make one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import CharField, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import OrderBy
from django.db.models.functions import Cast, Coalesce
from django.http import Http404
from django.shortcuts import get_object_or_404

from accounts.models import ApiKey, SpendCounter, Workspace
from accounts.roles import Action, list_workspace_roles
from accounts.services.key_limits import KeyUsage, read_usages
from accounts.spending import find_window_starts
from console.queries.paging import Page, cut_page
from console.scope import Scope, widen_scope
from console.words import Badge
from gateway.http.errors import NotFound

PAGE_ROWS: Final = 50
ORDERS: Final[Mapping[str, tuple[str | OrderBy, ...]]] = {
    "name": ("name", "pk"),
    "-name": ("-name", "-pk"),
    "created": ("created_at", "pk"),
    "-created": ("-created_at", "-pk"),
    "used": (F("last_used_at").asc(nulls_first=True), "pk"),
    "-used": (F("last_used_at").desc(nulls_last=True), "-pk"),
}
NEWEST_FIRST: Final = "-created"
RESET_WORDS: Final = {"daily": "a day", "weekly": "a week", "monthly": "a month"}
# What a key spent in the current window can be ordered by too.
_WINDOWS: Final = {"today": "day", "month": "month"}


class NoSuchWorkspace(NotFound):
    message = "There is no such workspace of yours."


class KeyRow(NamedTuple):
    """A key with what it spent; its workspace and creator are loaded."""

    key: ApiKey
    usage: KeyUsage
    now: datetime

    @property
    def counted_nano(self) -> int:
        """What counts against its limit, in the limit's window."""
        return self.usage.counted_nano(self.key)

    @property
    def percent(self) -> int | None:
        """How much of the limit is spent; None without one."""
        limit_nano = self.key.limit_nano
        if limit_nano is None:
            return None
        return min(100, 100 * self.counted_nano // limit_nano) if limit_nano else 100

    @property
    def status(self) -> Badge:
        key = self.key
        if key.expires_at is not None and key.expires_at <= self.now:
            return Badge("plain", "expired")
        if key.disabled:
            return Badge("plain", "disabled")
        if key.creator is not None and not key.creator.is_active:
            return Badge("bad", "its person is switched off")
        if self.percent is not None and self.percent >= 100:
            return Badge("bad", "limit reached")
        return Badge("good", "active")

    @property
    def reset_word(self) -> str:
        """`a day`, `a week`, `a month`, or nothing for all time."""
        return RESET_WORDS.get(self.key.limit_reset or "", "in all")


def list_keys(
    scope: Scope, text: str, now: datetime, order: str = NEWEST_FIRST, cursor: str = ""
) -> Page[KeyRow]:
    """Living inference keys whose name, label or creator contains the text."""
    rows = _select(scope.filter_keys(ApiKey.objects.living()))
    if text:
        named = Q(name__icontains=text) | Q(creator__username__icontains=text)
        rows = rows.filter(named | Q(label__icontains=text))
    found = cut_page(_order(rows, order, now), cursor, PAGE_ROWS)
    usages = read_usages(keys=found.rows, at=now)
    return Page([KeyRow(key, usages[key.pk], now) for key in found.rows], found.next_cursor)


def _order(rows: QuerySet[ApiKey], order: str, now: datetime) -> QuerySet[ApiKey]:
    """In this order, else the newest first. Keys that spent nothing have no counter."""
    window = _WINDOWS.get(order.removeprefix("-"))
    if window is None:
        return rows.order_by(*ORDERS.get(order, ORDERS[NEWEST_FIRST]))
    counters = SpendCounter.objects.filter(
        scope=SpendCounter.Scope.KEY,
        scope_id=Cast(OuterRef("pk"), CharField()),
        window=window,
        window_start=find_window_starts(now)[window],
    )
    spent = Coalesce(Subquery(counters.values("spent_nano")), 0)
    by = "-" if order.startswith("-") else ""
    return rows.annotate(spent_nano=spent).order_by(f"{by}spent_nano", f"{by}pk")


def find_key(seen: Scope, number: int, now: datetime) -> tuple[KeyRow, Scope]:
    """The key of that number with the person's widest scope. Raises `Http404` where they may not
    see it."""
    key = get_object_or_404(_select(ApiKey.objects.living()), pk=number)
    scope = widen_scope(seen, key.account_id)
    if not scope.covers(
        account_id=key.account_id, workspace_id=key.workspace_id, creator_id=key.creator_id
    ):
        raise Http404
    return KeyRow(key, read_usages(keys=[key], at=now)[key.pk], now), scope


def may_rotate(scope: Scope, key: ApiKey) -> bool:
    """An intern's key has its string from the intern's boot, and works until the next one."""
    return key.intern_id is None and may_switch(scope, key)


def may_change_limits(scope: Scope, key: ApiKey) -> bool:
    """A limit on a key is set by somebody else than who spends: the workspace's lead, an admin."""
    return scope.allows_in(Action.OTHERS_KEYS, key.workspace_id)


def may_switch(scope: Scope, key: ApiKey) -> bool:
    """Whether the person may disable and rotate the key: his own, or as who may change limits."""
    return key.creator_id == scope.user.pk or may_change_limits(scope, key)


def list_workspaces_for_keys(scope: Scope) -> list[Workspace]:
    """Those in which the person may make a key, the default one first."""
    if scope.allows(Action.OTHERS_KEYS):
        return sorted(scope.workspaces, key=lambda each: not each.is_default)
    roles = list_workspace_roles(Action.OWN_KEYS)
    rows = [
        each
        for each in scope.own_workspaces
        if each.is_default or scope.own_roles[each.pk] in roles
    ]
    return sorted(rows, key=lambda each: not each.is_default)


def choose_workspace(scope: Scope, workspaces: Sequence[Workspace]) -> Workspace | None:
    """The one that the view shows, else the first."""
    shown = (each for each in workspaces if str(each.pk) == scope.view.value)
    return next(shown, workspaces[0] if workspaces else None)


def find_own_workspace(seen: Scope, workspace_id: str) -> tuple[Scope, Workspace]:
    """That workspace and the person's widest scope of its account, whichever account the pages
    show. Raises `NoSuchWorkspace` where they cannot make a key."""
    try:
        row = Workspace.objects.filter(pk=UUID(workspace_id)).first()
        scope = widen_scope(seen, row.account_id) if row else None
    except (ValueError, Http404):
        scope = None
    own = list_workspaces_for_keys(scope) if scope else []
    workspace = next((each for each in own if str(each.pk) == workspace_id), None)
    if scope is None or workspace is None:
        raise NoSuchWorkspace
    return scope, workspace


def _select(rows: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
    rows = rows.filter(kind=ApiKey.Kind.INFERENCE)
    return rows.select_related("account", "workspace", "creator")
