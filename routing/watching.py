"""Events about providers and models that are states: a schedule looks at what is committed.

Requests have no part in it: their records say which providers answered them, and which models they
asked for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Func, IntegerField, Max, Q

from accounts.events.outbox import (
    NewEvent,
    clear_alarm,
    raise_alarm,
    record_new_events,
)
from accounts.models import Account, Alarm, ApiKey
from gateway.http.jsonio import JsonObject
from routing.catalogue.models import Model, Provider
from routing.entities.vocabulary import STATUS_DISABLED
from routing.history.models import UsageDay, UsageHour, UsageLine
from routing.metering.models import Generation
from routing.reports.models import FailedRequest
from routing.serving.request.errors import UNPRICED
from routing.statistics.models import ProviderProbe

# A provider is down when this many tries in a row failed, and nothing was answered since.
FAILED_TRIES: Final = 2
_TRIES_SINCE: Final = timedelta(minutes=10)
# Of requests that were tried again or failed: at 33 a second, those of ten minutes.
_RECORDS_MAX: Final = 20_000
_USED_SINCE: Final = timedelta(days=30)
_UNPRICED_SINCE: Final = timedelta(days=1)
_KEYS_NAMED_MAX: Final = 20
_PROVIDER: Final = "provider:"


@dataclass
class _Tries:
    """The newest tries of a provider: how many failed in a row, when and how the last did, and
    whether the newest was answered."""

    failed: int = 0
    answered: bool = False
    last_at: datetime | None = None
    last_status: int = 0
    over: bool = False

    def add_older(self, status: int, at: datetime) -> None:
        """One more, the newest first. Refusals of single requests say nothing."""
        if self.over or 300 <= status < 500:
            return
        if status < 300:
            self.over, self.answered = True, not self.failed
            return
        if not self.failed:
            self.last_at, self.last_status = at, status
        self.failed += 1


def record_provider_health(*, now: datetime) -> int:
    """Record which providers went down or came back, by their probes and by what became of the
    requests of the last minutes; how many events."""
    tries = _read_tries(now)
    probes = {probe.provider_id: probe for probe in ProviderProbe.objects.all()}
    raised = Alarm.objects.filter(subject__startswith=_PROVIDER, is_raised=True)
    down = set(raised.values_list("subject", flat=True))
    recorded = 0
    for provider in Provider.objects.filter(status__gt=STATUS_DISABLED):
        probe = probes.get(provider.pk) if provider.probe_interval_s is not None else None
        recent, subject = tries.get(provider.slug, _Tries()), f"{_PROVIDER}{provider.slug}"
        failing = recent.failed >= FAILED_TRIES
        probe_ok = None if probe is None else probe.ok
        if subject not in down and (failing or probe_ok is False):
            with transaction.atomic():
                count = raise_alarm(subject, at=now)
                if count is not None:
                    event = _build_down(provider, count, recent, probe)
                    recorded += record_new_events([event], at=now)
        elif subject in down and not failing and probe_ok is not False:
            if not (recent.answered or probe_ok):
                continue
            with transaction.atomic():
                count = clear_alarm(subject, at=now)
                if count is not None:
                    event = NewEvent(
                        "provider.up",
                        f"provider.up:{provider.slug}:{count}",
                        f"Provider {provider.name} is back",
                        f"Provider {provider.name} answers again.",
                        data={"provider": provider.slug},
                    )
                    recorded += record_new_events([event], at=now)
    return recorded


def record_expiring_models(*, now: datetime) -> int:
    """Record which models of the catalogue end within `EXPIRY_NOTICE_DAYS`: for each account that
    used them lately, and for the operator; how many events."""
    today, until = now.date(), (now + timedelta(days=settings.EXPIRY_NOTICE_DAYS)).date()
    # The dates are text that sorts as they do.
    ending = Model.objects.filter(
        expiration_date__gte=today.isoformat(), expiration_date__lte=until.isoformat()
    )
    events = [event for model in ending for event in _build_model_events(model, now)]
    return record_new_events(events, at=now)


def record_unpriced_models(*, now: datetime) -> int:
    """Record which models were asked for that have no price, once a month for each account."""
    asked = FailedRequest.objects.filter(at__gte=now - _UNPRICED_SINCE, reason=UNPRICED)
    pairs = asked.values_list("account_id", "requested_model").distinct().order_by()
    accounts = set(Account.objects.values_list("pk", flat=True))
    events = [
        NewEvent(
            "model.unpriced",
            f"model.unpriced:{account_id}:{model[:150]}:{now:%Y-%m}",
            f"Model {model[:150]} was asked for and has no price",
            f"Requests for {model} are refused, because it has no price. Whoever runs this gateway "
            "can give it one, in the catalogue or in the admin.",
            account_id,
            data={"model": model},
        )
        for account_id, model in pairs
        if account_id in accounts
    ]
    return record_new_events(events, at=now)


# --- Providers ------------------------------------------------------------------------------------


class _Length(Func):
    """Of a JSON array."""

    function = "jsonb_array_length"
    output_field = IntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, function="json_array_length", **context)


def _read_tries(now: datetime) -> Mapping[str, _Tries]:
    """By the slug of the provider. Tries on a team's own credentials say nothing of it.

    The database sums up the many requests that their first endpoint answered: however many there
    are, a provider that nobody reaches is seen.
    """
    since = now - _TRIES_SINCE
    recent = Generation.objects.filter(created_at__gte=since).annotate(tries=_Length("attempts"))
    at_once = Q(tries=1, status__lt=300)
    answers = recent.filter(at_once, is_byok=False, endpoint_tag__isnull=False).values_list(
        "endpoint_tag"
    )
    answered: dict[str, datetime] = {}
    for tag, at in answers.annotate(at=Max("created_at")).order_by():
        slug = tag.partition("/")[0]
        answered[slug] = max(at, answered.get(slug, at))
    found: dict[str, _Tries] = {}
    # Those that their caches answered tried nobody.
    others = recent.exclude(at_once).filter(tries__gt=0).order_by("-created_at")
    for at, attempts in others.values_list("created_at", "attempts")[:_RECORDS_MAX]:
        for attempt in reversed(attempts):
            if not attempt["is_byok"] and attempt["status"]:
                slug = attempt["endpoint_id"].partition("/")[0]
                tries = found.setdefault(slug, _Tries())
                if slug in answered and answered[slug] >= at:
                    tries.add_older(200, answered[slug])
                tries.add_older(attempt["status"], at)
    for slug, at in answered.items():
        found.setdefault(slug, _Tries()).add_older(200, at)
    return found


def _build_down(
    provider: Provider, count: int, tries: _Tries, probe: ProviderProbe | None
) -> NewEvent:
    why = "A probe got no good answer."
    if tries.failed >= FAILED_TRIES and tries.last_at is not None:
        why = (
            f"The last {tries.failed} tries failed, the newest with {tries.last_status} at "
            f"{tries.last_at.astimezone(UTC):%H:%M:%S} (UTC)."
        )
    elif probe is not None and probe.status is not None:
        why = f"A probe was answered with {probe.status}."
    return NewEvent(
        "provider.down",
        f"provider.down:{provider.slug}:{count}",
        f"Provider {provider.name} is down",
        f"{why} Requests go to other providers of their models, where there are any. Whoever runs "
        "this gateway can look at the provider in the admin.",
        data={"provider": provider.slug, "failed_tries": tries.failed},
    )


# --- Models ---------------------------------------------------------------------------------------


def _build_model_events(model: Model, now: datetime) -> Iterator[NewEvent]:
    title = f"Model {model.slug} ends on {model.expiration_date}"
    data: JsonObject = {"model": model.slug, "expires_on": model.expiration_date}
    users = _find_users(model, now)
    for account_id, keys in users.items():
        names = _join_names(f'"{key.name}" ({key.label})' for key in keys)
        yield NewEvent(
            "model.expiring",
            f"model.expiring:{model.slug}:{model.expiration_date}:{account_id}",
            title,
            f"{model.slug} is served until {model.expiration_date}. These API keys used it in the "
            f"last 30 days: {names}. Let their requests name another model before.",
            account_id,
            data=data | {"api_keys": [key.label for key in keys]},
        )
    named = Account.objects.filter(pk__in=users).order_by("name").values_list("name", flat=True)
    yield NewEvent(
        "model.expiring",
        f"model.expiring:{model.slug}:{model.expiration_date}",
        title,
        f"{model.slug} is served until {model.expiration_date}. Accounts that used it in the last "
        f"30 days: {_join_names(named) or 'none'}.",
        data=data,
    )


def _find_users(model: Model, now: datetime) -> Mapping[UUID, Sequence[ApiKey]]:
    """The keys that used a model lately, by account."""
    lines = UsageLine.objects.filter(permaslug__in={model.slug, model.canonical_slug})
    ids = set(lines.values_list("pk", flat=True))
    since = now - _USED_SINCE
    used = {
        line
        for sums in (UsageDay, UsageHour)
        for line in sums.objects.filter(line_id__in=ids, start__gte=since)
        .values_list("line_id", flat=True)
        .distinct()
    }
    numbers = set(lines.filter(pk__in=used).values_list("api_key_id", flat=True))
    found: dict[UUID, list[ApiKey]] = {}
    for key in ApiKey.objects.living().filter(pk__in=numbers).order_by("name", "pk"):
        found.setdefault(key.account_id, []).append(key)
    return found


def _join_names(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _KEYS_NAMED_MAX
    text = ", ".join(every[:_KEYS_NAMED_MAX])
    return f"{text} and {more} more" if more > 0 else text
