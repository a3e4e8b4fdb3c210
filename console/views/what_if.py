"""What-if: past requests under rules that do not hold yet."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from accounts.guard_rules import GuardrailEntry, build_entry
from accounts.models import ApiKey, Guardrail
from console.listing import Filter, Listing, has_words
from console.page import PageContext, page, render_page
from console.queries.explanation import describe_step, shorten_provider
from console.scope import Scope
from console.table import Column
from routing.catalogue.snapshot import catalogue
from routing.formats.provider_preferences import ProviderPreferences
from routing.metering.models import Generation
from routing.what_if.comparison import ALL_FAILED, Comparison
from routing.what_if.period import NoSuchEndpoint, Period, PriceChange, Rules, replay_period

REQUESTS_MAX: Final = 1_000
_SORTS: Final = [
    ("", "As the requests asked"),
    ("price", "The cheapest first"),
    ("latency", "The soonest first token first"),
    ("throughput", "The fastest first"),
]
_COLUMNS: Final = (
    Column("Key", lambda row: row.name, order="key"),
    Column("Requests", lambda row: row.requests, "count", order="requests"),
    Column("Would move", lambda row: row.moved, "count", order="moved"),
    Column("Would be refused", lambda row: row.refused, "count", order="refused"),
    Column("Cost", lambda row: row.cost_before_nano, "usd", order="cost"),
    Column("Cost under the rules", lambda row: row.cost_after_nano, "usd", order="after"),
)


class RulesForm(forms.Form):
    """The rules to try; all that are given hold together."""

    sort = forms.ChoiceField(label="Order of providers", required=False, choices=_SORTS)
    first = forms.ChoiceField(label="Ask first", required=False)
    without = forms.ChoiceField(label="Without", required=False)
    without_model = forms.CharField(
        label="Without the model", required=False, help_text="The model's id."
    )
    guardrail = forms.ChoiceField(label="Under the guardrail", required=False)
    zdr = forms.BooleanField(
        label="Zero data retention only",
        required=False,
        help_text="Only endpoints that keep nothing.",
    )
    denies_collection = forms.BooleanField(
        label="No data collection", required=False, help_text="No endpoint that collects data."
    )
    no_fallbacks = forms.BooleanField(
        label="No fallbacks", required=False, help_text="Only the first endpoint may answer."
    )
    max_price_in = forms.DecimalField(
        label="Highest price in",
        required=False,
        min_value=0,
        help_text="USD for a million tokens of prompt.",
    )
    max_price_out = forms.DecimalField(
        label="Highest price out",
        required=False,
        min_value=0,
        help_text="USD for a million tokens of answer.",
    )
    model = forms.CharField(
        label="Another price: model", required=False, help_text="The model's id."
    )
    provider = forms.ChoiceField(label="Its provider", required=False)
    price_in = forms.DecimalField(label="Its price in", required=False, min_value=0)
    price_out = forms.DecimalField(label="Its price out", required=False, min_value=0)

    def __init__(self, scope: Scope, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        known = catalogue.current().providers.values()
        providers = sorted(((each.slug, each.name) for each in known), key=lambda pair: pair[1])
        guardrails = find_guardrails(scope).values_list("pk", "name")
        choices = {
            "first": [("", "Nobody in particular"), *providers],
            "without": [("", "All may answer"), *providers],
            "provider": [("", "Choose a provider"), *providers],
            "guardrail": [("", "Those of the requests"), *((str(pk), n) for pk, n in guardrails)],
        }
        for name, of_field in choices.items():
            self.fields[name].choices = of_field  # type: ignore[attr-defined]  # It is a choice.

    def clean_without_model(self) -> str:
        reference: str = self.cleaned_data["without_model"].strip()
        model = catalogue.current().model(reference) if reference else None
        if reference and model is None:
            raise forms.ValidationError("No model of the catalogue has this id.")
        return "" if model is None else model.canonical_slug

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if bool(given.get("model")) != bool(given.get("provider")):
            self.add_error("model", "Another price needs a model and a provider.")
        return given

    def read_rules(self) -> Rules:
        given = self.cleaned_data
        caps = {"prompt": given["max_price_in"], "completion": given["max_price_out"]}
        wishes: dict[str, Any] = {}
        if given["sort"]:
            wishes["sort"] = given["sort"]
        if given["first"]:
            wishes["order"] = (given["first"],)
        if any(cap is not None for cap in caps.values()):
            wishes["max_price"] = {name: cap for name, cap in caps.items() if cap is not None}
        if given["zdr"]:
            wishes["zdr"] = True
        if given["denies_collection"]:
            wishes["data_collection"] = "deny"
        if given["no_fallbacks"]:
            wishes["allow_fallbacks"] = False
        fields = {"max_price_usd" if name == "max_price" else name: wishes[name] for name in wishes}
        price = PriceChange(
            given["model"], given["provider"], given["price_in"], given["price_out"]
        )
        return Rules(
            preferences=ProviderPreferences(**fields),
            named=tuple(wishes),
            ignored_providers=[given["without"]] if given["without"] else [],
            prices=[price] if price.model else [],
        )


@page
def show_what_if(request: HttpRequest, page: PageContext) -> HttpResponse:
    is_asked = "sort" in request.GET
    form = RulesForm(page.scope, request.GET if is_asked else None)
    found: Comparison | None = None
    if is_asked and form.is_valid():
        try:
            found = replay_view(
                page.scope,
                form.read_rules(),
                guardrail_id=form.cleaned_data["guardrail"],
                banned_model=form.cleaned_data["without_model"],
                start=page.period.start(page.now),
                end=page.now,
            )
        except NoSuchEndpoint:
            form.add_error("model", "This provider has no such model.")
    context: dict[str, Any] = {"title": "What-if", "form": form, "requests_max": REQUESTS_MAX}
    if found is not None:
        known, latency = found.latency_known, None
        if known:
            # Expected milliseconds to the first token.
            latency = [1000 * each.latency_s / known for each in (found.before, found.after)]
        filters = [Filter("key", "Key", has_words(lambda row: row.name))]
        listing = Listing[KeyMove](request, _COLUMNS, "Keys", filters=filters)
        listing.load_whole(list_key_moves(found))
        if listing.is_csv:
            return listing.respond()
        context |= {
            "found": found,
            "latency": latency,
            "refused": list_refusals(found),
            "refused_count": found.refused.total(),
            "not_replayed": found.not_replayed.most_common(),
            "shares": list_shares(found),
            "list": listing,
        }
    return render_page(request, page, "console/what_if.html", context)


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
