"""POST /routing/what-if: what a period would have cost under other rules (ours)."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Final
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from accounts.guard_rules import build_entry
from accounts.models import ApiKey, Workspace
from accounts.services.guardrails import find_guardrail
from accounts.services.keys import NoSuchWorkspace
from accounts.views.managed import ManagedViewSet, describe_operations, managed_body
from accounts.views.schemas.fields import Id, UsdAmount
from gateway.database.db import Lane, run_queries
from gateway.http.errors import NotFound, SchemaInvalid
from gateway.http.jsonio import JsonObject, format_time, usd
from gateway.http.resources import Body, ResourceObject
from gateway.http.responses import json_response
from gateway.http.validation import Issue
from gateway.openapi.components import answer_of
from routing.catalogue.snapshot import catalogue
from routing.formats.provider_preferences import ProviderField, resolve_provider
from routing.history.schemas import Moment
from routing.metering.models import Generation
from routing.what_if.comparison import Comparison, Side
from routing.what_if.period import NoSuchEndpoint, Period, PriceChange, Rules, replay_period

DEFAULT_PERIOD: Final = timedelta(days=1)
DEFAULT_LIMIT: Final = 1_000
# A worker replays about 3,000 a second.
LIMIT_MAX: Final = 5_000
_CHANGES_MAX: Final = 50
_KEYS_MAX: Final = 50
_Count = Annotated[int, Field(ge=0)]
_Counts = dict[str, _Count]
_Price = Annotated[float, Field(ge=0, le=10_000)]
# Its component belongs to the requests' formats, where it is described once.
_Provider = Annotated[
    ProviderField | None,
    WithJsonSchema({"type": ["object", "null"], "additionalProperties": True}),
]


class WhatIfPrices(BaseModel):
    """Other prices for one provider of a model, in USD per million tokens."""

    model_config = ConfigDict(strict=True)

    model: str = Field(description="The model's id.")
    provider: str = Field(description="Slug, name or tag.")
    prompt: _Price | None = None
    completion: _Price | None = None

    def build_change(self) -> PriceChange:
        prices = [
            None if usd is None else Decimal(str(usd)) for usd in (self.prompt, self.completion)
        ]
        return PriceChange(self.model, self.provider, *prices)


class WhatIfBody(Body):
    """Which requests to replay, and the rules to try. All rules given hold together."""

    since: Moment | None = Field(None, description="A day before `until` if absent.")
    until: Moment | None = Field(None, description="Now if absent.")
    workspace_id: Id | None = Field(None, description="All workspaces of the account if absent.")
    limit: int = Field(
        DEFAULT_LIMIT, ge=1, le=LIMIT_MAX, description="At most so many requests, the newest first."
    )
    provider: _Provider = Field(
        None,
        description="The `provider` object of requests. Its keys replace those of each request; "
        "other keys stay.",
    )
    ignored_providers: list[str] = Field(
        [], max_length=_CHANGES_MAX, description="Providers that answer nobody."
    )
    guardrail_id: Id | None = Field(
        None, description="Its models, providers, regions and data rules, for every request."
    )
    prices: list[WhatIfPrices] = Field([], max_length=_CHANGES_MAX)

    def build_period(self, account_id: UUID, now: datetime) -> Period:
        """Raises `SchemaInvalid` for a period that ends before it begins."""
        until = self.until or now
        since = self.since or until - DEFAULT_PERIOD
        if since >= until:
            text = "Invalid input: expected a moment after since"
            raise SchemaInvalid([Issue("until", text)])
        rows = Generation.objects.filter(account=account_id)
        if self.workspace_id is not None:
            rows = rows.filter(workspace=self.workspace_id)
        return Period(since, until, rows, self.limit)

    def build_rules(self) -> Rules:
        """The rules but for the guardrail, which has to be looked up."""
        preferences = resolve_provider(self.provider)
        rules = Rules(
            ignored_providers=self.ignored_providers,
            prices=[each.build_change() for each in self.prices],
        )
        if preferences is None:
            return rules
        return rules._replace(preferences=preferences, named=tuple(self.provider or ()))


class WhatIfSide(ResourceObject):
    """Sums over the compared requests."""

    charged: UsdAmount | None = Field(description="What was charged then; null for other rules.")
    cost: UsdAmount
    latency_s: float | None = Field(
        description="Expected seconds to the first token, on average of `latency_known` requests."
    )
    providers: _Counts
    models: _Counts


class WhatIfKey(ResourceObject):
    """What the rules change for one key."""

    key_hash: str | None = Field(description="Null for a key that is gone.")
    name: str
    requests: _Count
    moved: _Count
    refused: _Count
    cost_before: UsdAmount
    cost_after: UsdAmount


class WhatIfObject(ResourceObject):
    """A period then, and under the rules. Both sides have today's prices, but for changed ones."""

    model_config = ConfigDict(title="WhatIf")

    since: datetime
    until: datetime
    generations: _Count = Field(description="Requests that were looked at.")
    compared: _Count
    moved: _Count = Field(description="Compared requests that another endpoint would answer.")
    refused: _Counts = Field(description="Requests that no endpoint would answer, by the reason.")
    not_replayed: _Counts = Field(description="Requests that cannot be replayed, by the reason.")
    latency_known: _Count
    before: WhatIfSide
    after: WhatIfSide
    keys: list[WhatIfKey] = Field(description="Those that paid most, at most 50.")


def serialize_what_if(comparison: Comparison, period: Period) -> JsonObject:
    """The JSON of a `WhatIfObject`. Reads the keys' names."""
    by_cost = sorted(comparison.keys.items(), key=lambda item: -item[1].cost_before_nano)
    shown = by_cost[:_KEYS_MAX]
    rows = ApiKey.objects.in_bulk([key for key, _ in shown if key is not None])
    keys = []
    for key, change in shown:
        row = rows.get(key or 0)
        keys.append(
            {
                "key_hash": row and row.hash,
                "name": row.name if row else "deleted key",
                "requests": change.requests,
                "moved": change.moved,
                "refused": change.refused,
                "cost_before": usd(change.cost_before_nano),
                "cost_after": usd(change.cost_after_nano),
            }
        )
    facts = serialize_comparison(comparison)
    facts["after"] = {"charged": None, **facts["after"]}
    return WhatIfObject.from_row(
        comparison,
        **facts,
        since=format_time(period.since),
        until=format_time(period.until),
        keys=keys,
    )


def serialize_comparison(comparison: Comparison) -> JsonObject:
    """The sums of a comparison; counts are sorted, the highest first."""
    known = comparison.latency_known
    return {
        "generations": comparison.seen,
        "compared": comparison.compared,
        "moved": comparison.moved,
        "refused": _sort_by_count(comparison.refused),
        "not_replayed": _sort_by_count(comparison.not_replayed),
        "latency_known": known,
        "before": {
            "charged": usd(comparison.charged_nano),
            **_serialize_side(comparison.before, known),
        },
        "after": _serialize_side(comparison.after, known),
    }


def _serialize_side(side: Side, latency_known: int) -> JsonObject:
    return {
        "cost": usd(side.cost_nano),
        "latency_s": round(side.latency_s / latency_known, 4) if latency_known else None,
        "providers": _sort_by_count(side.providers),
        "models": _sort_by_count(side.models),
    }


def _sort_by_count(counts: Counter[str]) -> dict[str, int]:
    items: Iterable[tuple[str, int]] = counts.items()
    return dict(sorted(items, key=lambda item: (-item[1], item[0])))


_operation: Final = describe_operations("Analytics", 400, 429)


class WhatIfViewSet(ManagedViewSet):
    """Past requests under rules that do not hold yet."""

    @_operation(
        "askWhatIf",
        "Replay a period under other rules",
        "Ours. Plans the answered requests of a period again, with the statistics of their time, "
        "and compares cost, expected latency, refusals and who moves. Nothing is called, charged "
        "or changed.",
        answer_of(WhatIfObject),
        body=WhatIfBody,
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        body = WhatIfBody.read(managed_body(request))
        period, rules = body.build_period(caller.account_id, datetime.now(UTC)), body.build_rules()
        answer = run_queries(Lane.OPERATOR, lambda: _answer(caller.account_id, body, period, rules))
        return json_response({"data": answer})


def _answer(account: UUID, body: WhatIfBody, period: Period, rules: Rules) -> JsonObject:
    """The JSON of a `WhatIfObject`. Raises `NoSuchWorkspace` and `SchemaInvalid`."""
    mine = Workspace.objects.filter(account=account)
    if body.workspace_id is not None and not mine.filter(pk=body.workspace_id).exists():
        raise NoSuchWorkspace
    if body.guardrail_id is not None:
        try:
            row = find_guardrail(account, body.guardrail_id)
        except NotFound:
            text = "Invalid input: no guardrail of this account"
            raise SchemaInvalid([Issue("guardrail_id", text)]) from None
        rules = rules._replace(guardrail=build_entry(row, "workspace"))
    try:
        comparison = replay_period(period, rules, catalogue.current())
    except NoSuchEndpoint as error:
        text = "Invalid input: no such model of this provider"
        raise SchemaInvalid([Issue(f"prices.{error.at}", text)]) from None
    return serialize_what_if(comparison, period)
