"""What requests may spend beyond their key's own limit: one scope for each budget that applies; and
the UTC windows that spending is counted in.

A budget's spending stands on one counter for each of its windows (`SpendCounter`), which the ledger
writer guards. Making, changing or ending a budget calls `outdate_limits` or `end_budgets`
(`accounts.services.spend_scopes`) in the same transaction. From its commit on the limit holds
exactly, for requests under way too.
"""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from accounts.models import SpendCounter
from gateway.http.validation import shorten
from gateway.limits.rules import EACH

# What a hold says of its counters where it is held on none.
NO_COUNTER: Final = "0"
# The limit of counters whose budget only warns. Requests are held on them as on any other, so that
# what is under way when the budget is set counts too. None is ever refused.
UNREACHABLE_NANO: Final = 2**62
ScopeKind = Literal["workspace", "guardrail", "end_user", "tag"]
# Which of them depend on the request. No entry of the ledger says whom or what it was for, so
# spending counts from when the budget is set.
OF_REQUESTS: Final[frozenset[ScopeKind]] = frozenset({"end_user", "tag"})
WindowName = Literal["total", "day", "week", "month"]
# Broadest first, the order in which workspace budgets are looked at; and what people call them.
WINDOW_WORDS: Final[dict[WindowName, str]] = {
    "total": "lifetime",
    "month": "monthly",
    "week": "weekly",
    "day": "daily",
}
WINDOW_OF_WORD: Final = {word: window for window, word in WINDOW_WORDS.items()}


class SpendScope(NamedTuple):
    """One budget as it applies to a key: whose spending, in which window, how much at most.

    `scope_id` is the workspace's id in hex, `format_guardrail_scope_id(...)`, or that of
    `EndUserBudget` or `TagBudget`. `counts_byok` says that spending on credentials of the account's
    own counts too. `workspace` (an id in hex) narrows a guardrail's budget to what the holder
    spends there, as for a workspace's default guardrail. Empty means anywhere in the account. One
    that is not enforced only warns. `tag` is what a tag's budget is of (`team=blue`), for messages.
    """

    scope: ScopeKind
    scope_id: str
    window: WindowName
    limit_nano: int
    counts_byok: bool
    workspace: str = ""
    is_enforced: bool = True
    tag: str = ""

    @property
    def counter_limit_nano(self) -> int:
        """The limit on its counters."""
        return self.limit_nano if self.is_enforced else UNREACHABLE_NANO


class EndUserBudget(NamedTuple):
    """What each end user of a workspace may spend in a window: what `limits` say of the hash of his
    id, else `limit_nano`. None limits nothing. `workspace` is an id in hex.

    Spending counts from when the budget is set: no entry of the ledger says whose end user it was.
    """

    workspace: str
    window: WindowName
    limit_nano: int | None
    limits: Mapping[str, int | None]
    counts_byok: bool

    def build_scope(self, user_hash: str) -> SpendScope | None:
        """The budget of one end user, None where nothing limits him."""
        limit_nano = self.limits.get(user_hash, self.limit_nano)
        if limit_nano is None:
            return None
        return SpendScope(
            "end_user",
            format_end_user_scope_id(self.workspace, user_hash),
            self.window,
            limit_nano,
            self.counts_byok,
            self.workspace,
        )


class TagBudget(NamedTuple):
    """What requests of a workspace (an id in hex) with a tag may spend in a window. `value` None
    means each value apart, but for those that have a budget of their own in this window.

    Spending counts from when the budget is set.
    """

    workspace: str
    name: str
    value: str | None
    window: WindowName
    limit_nano: int
    counts_byok: bool

    def build_scope(self, value: str) -> SpendScope:
        """The budget of one value."""
        tag = f"{self.name}={value}"
        digest = blake2b(tag.encode("utf-8", "replace"), digest_size=15)
        scope_id = f"{self.workspace}:{digest.hexdigest()}"
        limits = (self.window, self.limit_nano, self.counts_byok)
        return SpendScope("tag", scope_id, *limits, self.workspace, tag=shorten(tag))


def build_tag_scopes(
    budgets: Iterable[TagBudget], tags: Mapping[str, str]
) -> tuple[SpendScope, ...]:
    """The budgets that a request with these tags counts against."""
    found: dict[tuple[str, str], TagBudget] = {}
    for budget in budgets:
        place = budget.name, budget.window
        if tags.get(budget.name, "") == budget.value:
            found[place] = budget
        elif budget.name in tags and budget.value is None:
            found.setdefault(place, budget)
    return tuple(budget.build_scope(tags[budget.name]) for budget in found.values())


def read_tag_budgets(workspace: Any) -> tuple[TagBudget, ...]:
    """The budgets in a `Workspace`'s column `tag_budgets`."""
    found = []
    for stored in workspace.tag_budgets or ():
        name, _, value = stored["tag"].partition("=")
        found.append(
            TagBudget(
                workspace.pk.hex,
                name,
                None if value == EACH else value,
                WINDOW_OF_WORD[stored["interval"]],
                stored["limit_nano"],
                workspace.include_byok_in_budgets,
            )
        )
    return tuple(found)


# What stands in the place of an erased user's hash.
ERASED_USER: Final = "erased-"


def format_end_user_scope_id(workspace: str, user_hash: str) -> str:
    """The counter's id, with as much of the hash as the column has room for."""
    return f"{workspace}:{user_hash[:31]}"


def read_end_user_budget(workspace: Any) -> EndUserBudget | None:
    """The budget in a `Workspace`'s column `end_user_budget`."""
    stored = workspace.end_user_budget
    if stored is None:
        return None
    return EndUserBudget(
        workspace.pk.hex,
        WINDOW_OF_WORD[stored["interval"]],
        stored["limit_nano"],
        stored["limits"],
        workspace.include_byok_in_budgets,
    )


def format_guardrail_scope_id(
    guardrail_id: UUID, *, key: int | None = None, user: int | None = None
) -> str:
    """A guardrail's budget is each holder's own: a key's (by number), or a member's (by its user's
    number), for all the keys that it created."""
    assert (key is None) != (user is None)
    holder = f"k:{key}" if user is None else f"u:{user}"
    return f"{guardrail_id.hex}:{holder}"


def parse_holder(scope_id: str) -> tuple[Literal["k", "u"], int]:
    """Whose a guardrail's scope is: a key's (`k`) or a user's (`u`), and its number."""
    _, kind, number = scope_id.split(":")
    return ("k" if kind == "k" else "u"), int(number)


def build_workspace_scopes(workspace: Any, budgets: Iterable[Any]) -> tuple[SpendScope, ...]:
    """The scopes of a workspace's `WorkspaceBudget` rows, the broadest window first."""
    rows = {WINDOW_OF_WORD[row.interval]: row for row in budgets}
    return tuple(
        SpendScope(
            "workspace",
            workspace.pk.hex,
            window,
            rows[window].limit_nano,
            workspace.include_byok_in_budgets,
            is_enforced=rows[window].enforcement == "block",
        )
        for window in WINDOW_WORDS
        if window in rows
    )


ALL_TIME = date(1970, 1, 1)
Window = SpendCounter.Window


def find_window_starts(at: datetime) -> dict[str, date]:
    """First day of each window at `at` (UTC): all time, day, ISO week from Monday, month."""
    return dict(list_windows(at.date()))


@lru_cache(maxsize=8)
def list_windows(day: date) -> tuple[tuple[str, date], ...]:
    """The windows that a UTC day falls into, each with its first day."""
    starts = {
        Window.TOTAL.value: ALL_TIME,
        Window.DAY.value: day,
        Window.WEEK.value: day - timedelta(days=day.weekday()),
        Window.MONTH.value: day.replace(day=1),
    }
    return tuple(starts.items())


def find_window_end(window: str, start: date) -> date | None:
    """The first day after a window; None where there is none."""
    match window:
        case Window.DAY.value:
            return start + timedelta(days=1)
        case Window.WEEK.value:
            return start + timedelta(days=7)
        case Window.MONTH.value:
            return (start + timedelta(days=31)).replace(day=1)
    return None


# Which window a key's `limit_reset` limits.
LIMITED_WINDOW = {
    None: Window.TOTAL.value,
    "daily": Window.DAY.value,
    "weekly": Window.WEEK.value,
    "monthly": Window.MONTH.value,
}


def find_limited_window(key: Any) -> str:
    """The window that an `ApiKey`'s limit stands on, "" where it has none that is enforced."""
    return "" if key.enforced_limit_nano is None else LIMITED_WINDOW[key.limit_reset]
