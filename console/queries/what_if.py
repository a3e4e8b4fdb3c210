"""What the requests of a view would have come to under other rules."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import QuerySet

from accounts.guard_rules import GuardrailEntry, build_entry
from accounts.models import ApiKey, Guardrail
from console.queries.explanation import describe_step, shorten_provider
from console.scope import Scope
from routing.catalogue.snapshot import catalogue
from routing.metering.models import Generation
from routing.what_if.comparison import ALL_FAILED, Comparison
from routing.what_if.period import Period, Rules, replay_period

REQUESTS_MAX: Final = 1_000
KEYS_SHOWN: Final = 50


class KeyMove(NamedTuple):
    """What the rules change for one key; amounts are nano-USD."""

    name: str
    requests: int
    moved: int
    refused: int
    cost_before_nano: int
    cost_after_nano: int


class Share(NamedTuple):
    """How many requests a provider answers, before and after, and the same in percent."""

    name: str
    before: int
    after: int
    before_percent: float
    after_percent: float


def replay_view(
    scope: Scope,
    rules: Rules,
    *,
    guardrail_id: str,
    banned_model: str,
    start: datetime,
    end: datetime,
) -> Comparison:
    """The newest requests of the view under the rules, without the banned model (empty: none is).
    Raises `NoSuchEndpoint`."""
    entry: GuardrailEntry | None = None
    if guardrail_id:
        entry = build_entry(find_guardrails(scope).get(pk=guardrail_id), "workspace")
    if banned_model:
        entry = entry or GuardrailEntry("workspace")
        entry = replace(entry, ignored_models=entry.ignored_models | {banned_model})
    rules = rules._replace(guardrail=entry)
    rows = scope.filter(Generation.objects.all())
    return replay_period(Period(start, end, rows, REQUESTS_MAX), rules, catalogue.current())


def find_guardrails(scope: Scope) -> QuerySet[Guardrail]:
    """Those of the view's workspaces; a view of one's own keys has none."""
    rows = Guardrail.objects.filter(workspace__account=scope.account).order_by("name")
    if scope.view.is_own:
        return rows.none()
    if scope.view.workspace_ids is not None:
        return rows.filter(workspace__in=scope.view.workspace_ids)
    return rows


def list_providers() -> list[tuple[str, str]]:
    """Slug and name of every provider, by name."""
    providers = catalogue.current().providers.values()
    return sorted(((each.slug, each.name) for each in providers), key=lambda pair: pair[1])


def list_refusals(comparison: Comparison) -> list[tuple[str, int]]:
    """Why requests would be refused, in words, and how many, most first."""
    return [
        (f"no endpoint is left: {describe_step(step)}" if step != ALL_FAILED else step, number)
        for step, number in comparison.refused.most_common()
    ]


def list_key_moves(comparison: Comparison) -> list[KeyMove]:
    """All keys, those that paid most first."""
    shown = sorted(comparison.keys.items(), key=lambda item: -item[1].cost_before_nano)
    names: Mapping[int | None, str] = dict(
        ApiKey.objects.filter(pk__in=[key for key, _ in shown if key]).values_list("pk", "name")
    )
    return [
        KeyMove(
            names.get(key, "deleted key"),
            change.requests,
            change.moved,
            change.refused,
            change.cost_before_nano,
            change.cost_after_nano,
        )
        for key, change in shown
    ]


def list_shares(comparison: Comparison) -> list[Share]:
    """Providers by how many of the compared requests they answer."""
    before, after = comparison.before.providers, comparison.after.providers
    whole = max(comparison.compared, 1)
    shares = [
        Share(
            shorten_provider(name),
            before[name],
            after[name],
            100 * before[name] / whole,
            100 * after[name] / whole,
        )
        for name in before.keys() | after.keys()
    ]
    return sorted(shares, key=lambda share: (-share.after, share.name))
