"""Events about credit, ends of keys, budgets of end users and the audit: a schedule looks at what
is committed.

The key of an event names a crossing, so that each is recorded once, whoever looks and how often.
Nothing of this is on the way of a request.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import BigIntegerField, ExpressionWrapper, F

from accounts.events.outbox import (
    NewEvent,
    clear_alarm,
    find_new_events,
    raise_alarm,
    record_new_events,
)
from accounts.models import (
    Account,
    Alarm,
    ApiKey,
    Event,
    SpendCounter,
    Workspace,
)
from accounts.money import format_dollars
from accounts.services.books.audit import AuditReport
from accounts.services.books.credits import find_expiring_credit
from accounts.services.books.spent_limits import (
    SpentLimit,
    build_crossings,
    describe_remedy,
    list_open_limits,
    select_half_spent,
)
from accounts.spending import ERASED_USER, format_end_user_scope_id, read_end_user_budget
from gateway.http.jsonio import format_usd

# Events about end users without a limit of their own, of whom a workspace may have any number. They
# share this many, and one more says that there were more.
EVENTS_A_DAY: Final = 100
_NANO: Final = 1_000_000_000
_LOW_CREDIT: Final = "credit.low:"
_MISMATCH: Final = "ledger.mismatch:"
_TEXTS_MAX: Final = 20
_ASK_OPERATOR: Final = "Whoever runs this gateway can add credits."


def record_low_credit(*, now: datetime) -> int:
    """Record which accounts have less credit than `CREDIT_LOW_USD`; how many events. An account
    that has heard of it hears of it again only after it had more."""
    threshold_nano = int(settings.CREDIT_LOW_USD * _NANO)
    # Django takes a difference for a smaller integer, which every threshold is beyond.
    balance = ExpressionWrapper(
        F("total_credits_nano") - F("total_usage_nano"), output_field=BigIntegerField()
    )
    accounts = Account.objects.annotate(left_nano=balance)
    raised = Alarm.objects.filter(subject__startswith=_LOW_CREDIT, is_raised=True)
    ids = {UUID(alarm.subject.removeprefix(_LOW_CREDIT)) for alarm in raised}
    for account in accounts.filter(pk__in=ids, left_nano__gte=threshold_nano):
        clear_alarm(f"{_LOW_CREDIT}{account.pk}", at=now)
    # An account that never had credit has not run low of it.
    low = accounts.filter(left_nano__lt=threshold_nano, total_credits_nano__gt=0)
    recorded = 0
    for account in low.exclude(pk__in=ids):
        with transaction.atomic():
            count = raise_alarm(f"{_LOW_CREDIT}{account.pk}", at=now)
            if count is not None:
                left = format_dollars(account.balance_nano)
                event = NewEvent(
                    "credit.low",
                    f"{_LOW_CREDIT}{account.pk}:{count}",
                    f"Credit of account {account.name} is below ${settings.CREDIT_LOW_USD:,.2f}",
                    f"Account {account.name} has {left} of credit left. Without credit its "
                    f"requests are refused. {_ASK_OPERATOR}",
                    account.pk,
                    data={"balance_usd": format_usd(account.balance_nano)},
                )
                recorded += record_new_events([event], at=now)
    return recorded


def record_expiries(*, now: datetime) -> int:
    """Record which keys and credits end within `EXPIRY_NOTICE_DAYS`; how many events."""
    until = now + timedelta(days=settings.EXPIRY_NOTICE_DAYS)
    keys = ApiKey.objects.living().filter(expires_at__gt=now, expires_at__lte=until, disabled=False)
    events = []
    for key in keys:
        assert key.expires_at is not None
        day = f"{key.expires_at.astimezone(UTC):%Y-%m-%d %H:%M} (UTC)"
        text = (
            f'API key "{key.name}" ({key.label}) stops working on {day}. A management key of the '
            "account can make another one with POST /api/v1/keys."
        )
        data = {"key_name": key.name, "key_label": key.label}
        events.append(
            NewEvent(
                "key.expiring",
                f"key.expiring:{key.pk}:{key.expires_at.isoformat()}",
                f'API key "{key.name}" expires on {day}',
                text,
                key.account_id,
                key.workspace_id,
                {**data, "expires_at": key.expires_at.isoformat()},
            )
        )
    if settings.CREDIT_EXPIRY_DAYS:
        days = timedelta(days=settings.CREDIT_EXPIRY_DAYS)
        for expiring in find_expiring_credit(until - days):
            amount = format_dollars(expiring.amount_nano)
            ends_at = expiring.came_at + days
            text = (
                f"{amount} of the account's credit expires on {ends_at:%Y-%m-%d} (UTC), unless it "
                f"is used before. {_ASK_OPERATOR}"
            )
            events.append(
                NewEvent(
                    "credit.expiring",
                    f"credit.expiring:{expiring.account_id}:{expiring.entry_id}",
                    f"{amount} of credit expires on {ends_at:%Y-%m-%d}",
                    text,
                    expiring.account_id,
                    data={
                        "expiring_usd": format_usd(expiring.amount_nano),
                        "expires_on": f"{ends_at:%Y-%m-%d}",
                    },
                )
            )
    return record_new_events(events, at=now)


# --- The audit ------------------------------------------------------------------------------------


def record_mismatches(found: AuditReport, *, now: datetime) -> int:
    """Record what an audit found wrong: for each account, and for the operator what is of none.
    A mismatch is reported again only after an audit found it right. Returns how many events."""
    of_accounts = {text for texts in found.by_account.values() for text in texts}
    rest = [text for text in found.mismatches if text not in of_accounts]
    wrong: dict[str, tuple[UUID | None, Sequence[str]]] = {
        f"{_MISMATCH}{account_id}": (account_id, texts)
        for account_id, texts in found.by_account.items()
    }
    if rest:
        wrong[f"{_MISMATCH}gateway"] = (None, rest)
    raised = Alarm.objects.filter(subject__startswith=_MISMATCH, is_raised=True)
    for alarm in raised.exclude(subject__in=wrong):
        clear_alarm(alarm.subject, at=now)
    recorded = 0
    for subject, (account_id, texts) in wrong.items():
        with transaction.atomic():
            count = raise_alarm(subject, at=now)
            if count is not None:
                event = NewEvent(
                    "ledger.mismatch",
                    f"{subject}:{count}",
                    "The books disagree",
                    "An audit found totals that the ledger's entries do not add up to (nano-USD): "
                    f"{'; '.join(texts[:_TEXTS_MAX])}. Whoever runs this gateway can look with "
                    "`manage.py audit_ledger`. Counters of budgets are put right at once.",
                    account_id,
                    data={"mismatches": list(texts[:_TEXTS_MAX]), "count": len(texts)},
                )
                recorded += record_new_events([event], at=now)
    return recorded


# --- Budgets of end users -------------------------------------------------------------------------


def record_end_user_spending(*, now: datetime) -> int:
    """Record which budgets of end users crossed a level; how many events."""
    chosen: list[NewEvent] = []
    shared: defaultdict[UUID | None, list[NewEvent]] = defaultdict(list)
    for limit in list_open_limits(_list_budgets, now):
        events = chosen if limit.details["has_own_limit"] else shared[limit.workspace_id]
        events.extend(build_crossings(limit, now))
    for pk, workspace in Workspace.objects.in_bulk(list(shared)).items():
        chosen.extend(_choose_events(workspace, shared[pk], now))
    return record_new_events(chosen, at=now)


def _list_budgets(at: datetime) -> Iterator[SpentLimit]:
    found = Workspace.objects.filter(end_user_budget__isnull=False)
    workspaces = {workspace.pk.hex: workspace for workspace in found}
    if not workspaces:
        return
    budgets = {name: read_end_user_budget(each) for name, each in workspaces.items()}
    own = {
        format_end_user_scope_id(name, user_hash)
        for name, budget in budgets.items()
        if budget is not None
        for user_hash in budget.limits
    }
    for counter in select_half_spent(SpendCounter.Scope.END_USER, at).iterator():
        name, _, user = counter.scope_id.partition(":")
        budget = budgets.get(name)
        if budget is None or budget.window != counter.window or user.startswith(ERASED_USER):
            continue
        workspace = workspaces[name]
        assert counter.limit_nano is not None
        yield SpentLimit(
            "budget.threshold",
            f"end_user:{counter.scope_id}",
            f'End user {user[:12]} of workspace "{workspace.name}"',
            "budget",
            counter.window,
            counter.window_start,
            counter.limit_nano,
            counter.counted_nano,
            describe_remedy(f"PATCH /api/v1/workspaces/{workspace.pk}"),
            workspace.account_id,
            workspace.pk,
            is_enforced=True,
            changed_at=workspace.updated_at,
            # Counters have room for so much of the hash.
            details={
                "scope": "end_user",
                "user_hash": user,
                "has_own_limit": counter.scope_id in own,
            },
        )


def _choose_events(
    workspace: Workspace, events: Sequence[NewEvent], now: datetime
) -> Iterable[NewEvent]:
    """Those that there is room for today, and what says that there are more."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    more = NewEvent(
        "budget.threshold",
        f"budget.threshold:end_users:{workspace.pk.hex}:{today:%Y-%m-%d}",
        f'More end users of workspace "{workspace.name}" spend their budgets than are told today',
        f"{EVENTS_A_DAY} events of {today:%Y-%m-%d} (UTC) were about end users without a limit of "
        "their own. Analytics by `external_user` show what each of them spent.",
        workspace.account_id,
        workspace.pk,
        {"scope": "end_users"},
    )
    if Event.objects.filter(key=more.key).exists():
        return ()
    recorded = Event.objects.filter(
        account_id=workspace.account_id,
        workspace_id=workspace.pk,
        at__gte=today,
        data__has_own_limit=False,
    )
    room = max(0, EVENTS_A_DAY - recorded.count())
    # The highest levels, which may stop requests, come before the many that only warn.
    new = sorted(find_new_events(events), key=lambda each: -each.data["level_percent"])
    return new if len(new) <= room else [*new[:room], more]
