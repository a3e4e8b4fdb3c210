"""Providers: the list, one of them with its incidents, adding one, prices, parking, a test."""

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST
from pydantic import TypeAdapter, ValidationError

from accounts.services.records import operator_actor
from console.charts import Series, bar_chart, line_chart
from console.listing import Filter, Listing, has_words, is_value, list_choices
from console.page import PageContext, page, render_page
from console.queries.endpoint_health import load_health_history
from console.queries.providers import (
    EndpointPrice,
    ProviderRow,
    find_provider,
    list_incidents,
    list_prices,
    list_providers,
)
from console.queries.usage import list_errors_of_provider
from console.scope import Scope
from console.table import Column, render_rows
from routing.catalogue.models import Endpoint, Provider
from routing.catalogue.spec import Slug, Url
from routing.entities.vocabulary import STATUS_DISABLED
from routing.statistics.models import ProviderProbe
from routing.upstreams.wires import CHAT_KINDS

if TYPE_CHECKING:
    from routing.providers.services import PricePerMillion

_OWN: Final = ""
_PRICE_MAX: Final = 1_000_000
# An operator waits for it, with the page's thread, and a page may take about 15 s.
_PROBE_S: Final = 8
# What a model can do that providers seldom tell, by a parameter that it takes then.
_SKILLS: Final = {
    "tools": "tools",
    "structured_outputs": "JSON schemas",
    "logprobs": "log-probabilities",
}
COLUMNS: Final = (
    Column(
        "Name", lambda row: row.provider.name, link=lambda row: _link(row.provider), order="name"
    ),
    Column("Now", lambda row: row.health, "badge"),
    Column("Share of requests", lambda row: row.share, "percent", order="share"),
    Column("Requests", lambda row: row.use.requests, "count", order="requests"),
    Column("Spent", lambda row: row.use.spend_nano, "usd", order="spent"),
    Column("Failed", lambda row: row.use.error_percent, "percent", order="failed"),
    Column("First token, median", lambda row: row.latency_ms, "ms", detail=True, order="latency"),
    Column("Models", lambda row: row.models, "count", order="models"),
    Column("Without a price", lambda row: row.unpriced or None, "count", minor=True),
    Column("Address", lambda row: row.provider.base_url, "code", minor=True),
)
ERRORS: Final = (
    Column("Error", lambda row: row.what),
    Column("Requests", lambda row: row.requests, "count"),
)
INCIDENTS: Final = (
    Column("From", lambda row: row.start, "time"),
    Column("To", lambda row: row.end, "time"),
    Column("What", lambda row: row.what),
)


class ProviderForm(forms.Form):
    """A well-known provider and its key, or where another server is."""

    known = forms.ChoiceField(label="Provider", required=False)
    key = forms.CharField(
        label="API key",
        required=False,
        max_length=10_000,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Kept encrypted and never shown. A server of your own may want none.",
    )
    name = forms.CharField(
        label="Name", required=False, max_length=100, help_text="Of a server of your own."
    )
    slug = forms.CharField(
        label="Slug",
        required=False,
        max_length=64,
        help_text="What callers write: lowercase letters, digits and hyphens.",
    )
    base_url = forms.CharField(
        label="Address",
        required=False,
        max_length=500,
        help_text="What stands before /chat/completions, such as http://127.0.0.1:11434/v1.",
    )
    kind = forms.ChoiceField(
        label="Wire format", choices=[(kind, kind) for kind in sorted(CHAT_KINDS)], initial="openai"
    )
    models = forms.CharField(
        label="Models",
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Only these, by the provider's names, one a line; empty takes all that it lists.",
    )
    probes = forms.BooleanField(
        label="Find out what its models can do",
        required=False,
        initial=True,
        help_text="Where it does not say: three small calls to each of the first 20 show whether "
        "they take tools, JSON schemas and log-probabilities.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        from routing.providers.discovery import KNOWN

        self._known = KNOWN
        choices = [(_OWN, "A server of your own"), *((k, v.name) for k, v in KNOWN.items())]
        self.fields["known"].choices = choices  # type: ignore[attr-defined]  # It is a choice.

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("known"):
            if not cleaned.get("key"):
                self.add_error("key", "This provider needs a key.")
            return cleaned
        for name, kind, text in (
            ("slug", Slug, "A slug such as my-server."),
            ("base_url", Url, "A URL that begins with http:// or https://."),
        ):
            try:
                cleaned[name] = TypeAdapter(kind).validate_python(cleaned.get(name, ""))
            except ValidationError:
                self.add_error(name, text)
        return cleaned

    def build_provider(self) -> Any:
        """What is looked for, as `add_provider` takes it."""
        from routing.providers.discovery import KnownProvider

        cleaned = self.cleaned_data
        if cleaned["known"]:
            return self._known[cleaned["known"]]
        return KnownProvider(
            slug=cleaned["slug"],
            name=cleaned["name"] or cleaned["slug"],
            base_url=cleaned["base_url"].rstrip("/"),
            key_env="",
            kind=cleaned["kind"],
        )

    def list_named(self) -> list[str]:
        return [line.strip() for line in self.cleaned_data["models"].splitlines() if line.strip()]


@page
def show_providers(request: HttpRequest, page: PageContext) -> HttpResponse:
    rows = list_providers(page.scope, page.period.start(page.now), page.now)
    columns = COLUMNS if page.scope.is_operator else COLUMNS[:-1]
    healths = list_choices(str(row.health) for row in rows)
    filters = [
        Filter("text", "Name", has_words(lambda row: row.provider.name)),
        Filter("now", "Now", is_value(lambda row: row.health), healths),
    ]
    listing = Listing[ProviderRow](request, columns, "Providers", filters=filters)
    listing.load_whole(rows)
    if listing.is_csv:
        return listing.respond()
    context = {"title": "Providers", "list": listing}
    return render_page(request, page, "console/providers.html", context)


@page
def show_provider(request: HttpRequest, page: PageContext, slug: str) -> HttpResponse:
    return _render(request, page, slug)


@page
def add_one(request: HttpRequest, page: PageContext) -> HttpResponse:
    """Ask a provider for its models, live, and keep it parked until its prices are looked at."""
    _require_operator(page.scope)
    form = ProviderForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        # Web processes hold what serves requests; this serves one form of operators.
        from routing.providers.discovery import DiscoveryError
        from routing.providers.services import add_provider

        provider = form.build_provider()
        is_new = not Provider.objects.filter(slug=provider.slug).exists()
        if not is_new and not form.cleaned_data["known"]:
            form.add_error("slug", "A provider has this slug already.")
        else:
            try:
                added = add_provider(
                    provider,
                    form.cleaned_data["key"].strip() or None,
                    named=form.list_named(),
                    probe_s=_PROBE_S if form.cleaned_data["probes"] else 0,
                    parked=True,
                    by=operator_actor(request.user),
                )
            except DiscoveryError as error:
                form.add_error(None, f"{error}. Nothing was stored.")
            else:
                found = len(added.enabled) + len(added.unpriced) + len(added.kept)
                text = f"{provider.name} answers, with {found} models. Look at the prices."
                if added.probed:
                    text += f" {len(added.probed)} of them were asked what they can do."
                messages.success(request, text)
                return HttpResponseRedirect(reverse("console:prices", args=[provider.slug]))
    context = {"title": "Add a provider", "nav": "Providers", "form": form}
    status = 400 if form.is_bound else 200
    return render_page(request, page, "console/new_provider.html", context, status=status)


@page
def change_prices(request: HttpRequest, page: PageContext, slug: str) -> HttpResponse:
    """Prices for a million tokens, in two fields for each model; what has both is served."""
    _require_operator(page.scope)
    provider = get_object_or_404(Provider, slug=slug)
    text, cursor = request.GET.get("text", ""), request.GET.get("cursor", "")
    rows, more = list_prices(provider, text, cursor)
    wrong: set[int] = set()
    if request.method == "POST":
        prices, wrong = _read_prices(request, rows)
        if not wrong:
            # As above: it brings `requests`.
            from routing.providers.services import price_endpoints, switch_provider

            by = operator_actor(request.user)
            count = price_endpoints(provider=provider, prices=prices, by=by)
            if request.POST.get("to") == "enabled":
                switch_provider(provider=provider, parked=False, by=by)
                text = f"{count} prices changed. {provider.name} gets requests from now on."
                messages.success(request, text)
                return HttpResponseRedirect(_link(provider))
            messages.success(request, f"{count} prices changed.")
            return HttpResponseRedirect(request.get_full_path())
    context = {
        "title": f"Prices of {provider.name}",
        "nav": "Providers",
        "provider": provider,
        "is_parked": provider.status <= STATUS_DISABLED,
        "rows": [_build_price_row(request, each, wrong) for each in rows],
        "text": text,
        "next_cursor": more,
    }
    status = 400 if wrong else 200
    return render_page(request, page, "console/prices.html", context, status=status)


def _read_prices(
    request: HttpRequest, rows: list[EndpointPrice]
) -> tuple[dict[int, "PricePerMillion"], set[int]]:
    """Prices by endpoint, of those of which both were filled in, and those that are wrong."""
    from routing.providers.services import PricePerMillion

    prices: dict[int, PricePerMillion] = {}
    wrong = set()
    for row in rows:
        pk = row.endpoint.pk
        texts = [request.POST.get(f"{name}_{pk}", "").strip() for name in ("in", "out")]
        if not any(texts):
            continue
        try:
            values = [forms.DecimalField(max_digits=19).clean(text) for text in texts]
        except forms.ValidationError:
            wrong.add(pk)
            continue
        if all(Decimal(0) <= value <= _PRICE_MAX for value in values):
            prices[pk] = PricePerMillion(*values)
        else:
            wrong.add(pk)
    return prices, wrong


def _build_price_row(request: HttpRequest, each: EndpointPrice, wrong: set[int]) -> dict[str, Any]:
    pk = each.endpoint.pk
    shown = {"in": each.prompt, "out": each.completion}
    given = {name: request.POST.get(f"{name}_{pk}") for name in shown}
    values = {
        name: ("" if value is None else f"{value:f}") if given[name] is None else given[name]
        for name, value in shown.items()
    }
    skills = [word for name, word in _SKILLS.items() if name in each.endpoint.supported_parameters]
    return {
        "endpoint": each.endpoint,
        "values": values,
        "is_wrong": pk in wrong,
        "skills": ", ".join(skills),
    }


@require_POST
@page
def switch_one(request: HttpRequest, page: PageContext, slug: str) -> HttpResponse:
    """Park a provider, or unpark it."""
    _require_operator(page.scope)
    provider, to = get_object_or_404(Provider, slug=slug), request.POST.get("to")
    if to not in ("parked", "unparked"):
        raise Http404
    is_parked = to == "parked"
    from routing.providers.services import switch_provider

    switch_provider(provider=provider, parked=is_parked, by=operator_actor(request.user))
    done = "gets no requests until you unpark it" if is_parked else "gets requests again"
    messages.success(request, f"{provider.name} {done}.")
    return HttpResponseRedirect(_link(provider))


@require_POST
@page
def send_test(request: HttpRequest, page: PageContext, slug: str) -> HttpResponse:
    """A tiny request to some of its endpoints, outside the books."""
    _require_operator(page.scope)
    from routing.admin.trial import TRIALS_MAX, try_endpoints

    endpoints = Endpoint.objects.filter(provider__slug=slug, pricing__isnull=False)
    chosen = list(endpoints.select_related("provider", "model").order_by("model")[:TRIALS_MAX])
    return _render(request, page, slug, trials=try_endpoints(chosen))


def _render(request: HttpRequest, page: PageContext, slug: str, **more: Any) -> HttpResponse:
    start = page.period.start(page.now)
    row, prices = find_provider(slug, page.scope, start, page.now)
    is_operator = page.scope.is_operator
    # Of all its endpoints and accounts together.
    pks = Endpoint.objects.filter(provider=row.provider).values("pk")
    history = load_health_history(pks, page.now, page.period.length)
    incidents = list_incidents(row.provider, history.samples, start, has_counts=is_operator)
    errors = list_errors_of_provider(page.scope, row.provider.slug, page.now)
    moments, step, stretches = history.moments, history.step, history.stretches
    calls = [
        Series("Answered", [each.calls - each.errors for each in stretches]),
        Series("Failed", [each.errors for each in stretches], "bad"),
    ]
    uptime = [Series("Uptime", [each.uptime for each in stretches])]
    context = {
        "title": row.provider.name,
        "nav": "Providers",
        "row": row,
        "provider": row.provider,
        "probe": ProviderProbe.objects.filter(provider=row.provider).first(),
        "prices": prices,
        "history": history,
        # How many calls other accounts make is for operators.
        "calls": bar_chart(moments, calls, unit="count", step=step) if is_operator else None,
        "uptime": line_chart(moments, uptime, unit="percent", step=step),
        "has_incidents": bool(incidents),
        "incidents": render_rows(INCIDENTS, incidents, "Incidents"),
        "has_errors": bool(errors),
        "errors": render_rows(ERRORS, errors, "Errors by type"),
        **more,
    }
    return render_page(request, page, "console/provider.html", context)


def _require_operator(scope: Scope) -> None:
    if not scope.is_operator:
        raise Http404


def _link(provider: Provider) -> str:
    return reverse("console:provider", args=[provider.slug])
