"""Home: what was spent and by whom, what needs somebody, and the first request as it arrives."""

from collections import Counter
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import F, Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode

from accounts.models import ApiKey
from accounts.money import NANO_PER_USD
from accounts.roles import Action
from accounts.services.key_limits import read_usages
from console.charts import Series, bar_chart
from console.page import PageContext, page, render_page
from console.queries import usage
from console.queries.budgets import BudgetUse, list_budgets
from console.queries.endpoint_health import read_learned
from console.queries.explanation import describe_in_a_sentence
from console.queries.interns import filter_interns
from console.queries.keys import KeyRow
from console.queries.requests import find_newest, has_requests
from console.queries.snippets import list_snippets
from console.scope import Scope
from console.words import (
    describe_refusal,
    format_change,
    format_count,
    format_count_short,
    format_money,
    format_money_short,
    format_ms,
    format_percent,
)
from interns.models import Intern
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import EndpointEntry
from routing.history.spans import DAY, HOUR, day_of, hour_of

_KEYS_MAX: Final = 100
_NAMES_MAX: Final = 3
# From here on somebody should look at it.
_CLOSE_PERCENT: Final = 80


class Notice(NamedTuple):
    """One thing to look at: how grave, in a sentence, and the page where (empty: none that the
    person may open)."""

    tone: str
    text: str
    address: str = ""


def list_notices(scope: Scope, budgets: list[BudgetUse], now: datetime) -> list[Notice]:
    """What needs somebody who may see it, the gravest first."""
    notices = [
        Notice(
            use.tone,
            f"{use.label} budget: {format_money(use.spent_nano)} of"
            f" {format_money(use.limit_nano)} is spent",
            find_budget_page(scope, use),
        )
        for use in budgets
        if use.tone != "good"
    ]
    notices += _list_key_notices(scope, now)
    if failed := filter_interns(scope, Intern.objects.filter(status="failed")).count():
        text = f"Interns that failed to start: {format_count(failed)}"
        notices.append(Notice("warn", text, reverse("console:interns")))
    sees_all = not scope.view.is_own and scope.view.workspace_ids is None
    if sees_all and scope.account.balance_nano <= 0:
        text = "The account has no credit left: every request that costs something is refused"
        address = reverse("console:credits") if scope.allows(Action.BILLING) else ""
        notices.append(Notice("bad", text, address))
    if scope.is_operator:
        notices += _list_operator_notices()
    return sorted(notices, key=lambda notice: notice.tone != "bad")


def find_budget_page(scope: Scope, use: BudgetUse) -> str:
    """The workspace's page, where the person leads it."""
    pk = use.workspace.pk
    return reverse("console:workspace", args=[pk]) if scope.leads(pk) else ""


def _list_key_notices(scope: Scope, now: datetime) -> list[Notice]:
    """Keys of the view, of those held to a limit that were used last, that have spent it, or most
    of it."""
    limited = ApiKey.objects.living().filter(
        kind=ApiKey.Kind.INFERENCE,
        disabled=False,
        limit_nano__isnull=False,
        limit_enforcement="block",
    )
    limited = limited.filter(Q(expires_at=None) | Q(expires_at__gt=now))
    newest = scope.filter_keys(limited).order_by(F("last_used_at").desc(nulls_last=True), "-pk")
    keys = list(newest[:_KEYS_MAX])
    usages = read_usages(keys=keys, at=now) if keys else {}
    uses = [(key, KeyRow(key, usages[key.pk], now).percent or 0) for key in keys]
    spent = [key for key, percent in uses if percent >= 100]
    close = [(key, percent) for key, percent in uses if _CLOSE_PERCENT <= percent < 100]
    notices = []
    if len(spent) == 1:
        text = f"The key {spent[0].name} has reached its limit: its requests are refused"
        notices.append(Notice("bad", text, reverse("console:key", args=[spent[0].pk])))
    elif spent:
        names = _list_names(spent)
        text = f"Keys that have reached their limit: {format_count(len(spent))} ({names})"
        notices.append(Notice("bad", text, reverse("console:keys")))
    if len(close) == 1:
        key, percent = close[0]
        text = f"The key {key.name} has spent {percent} % of its limit"
        notices.append(Notice("warn", text, reverse("console:key", args=[key.pk])))
    elif close:
        names = _list_names([key for key, _ in close])
        text = f"Keys that have spent most of their limit: {format_count(len(close))} ({names})"
        notices.append(Notice("warn", text, reverse("console:keys")))
    return notices


def _list_names(keys: list[ApiKey]) -> str:
    return ", ".join(key.name for key in keys[:_NAMES_MAX]) + (
        ", ..." if len(keys) > _NAMES_MAX else ""
    )


def _list_operator_notices() -> list[Notice]:
    snapshot, learned = catalogue.current(), read_learned()
    providers = reverse("console:providers")
    notices = [Notice("warn", problem, providers) for problem in snapshot.problems[:5]]
    endpoints = [each for model in snapshot.models.values() for each in model.endpoints]
    parked = {_identify(each) for each in endpoints if each.pk in learned.standing.parked}
    failing = {_identify(each) for each in endpoints if each.pk in learned.standing.unstable}
    ill = [
        ("bad", "is failing; other providers take its requests", failing - parked),
        ("warn", "is parked: it asked to be left alone", parked),
    ]
    for tone, text, found in ill:
        notices += [
            Notice(tone, f"{name} {text}", reverse("console:provider", args=[slug]))
            for slug, name in sorted(found, key=lambda each: each[::-1])
        ]
    unpriced = Counter(_identify(each) for each in endpoints if each.prices is None)
    for (slug, name), count in sorted(unpriced.items()):
        text = f"{name} has models without a price, which get no requests: {format_count(count)}"
        notices.append(Notice("warn", text, reverse("console:prices", args=[slug])))
    return notices


def _identify(endpoint: EndpointEntry) -> tuple[str, str]:
    return endpoint.provider.slug, endpoint.provider.name


_DAYS = 60
# Of today and yesterday.
_HOURS = 48
_NO_TAG = "No request of the last 24 hours has a tag. Set tags with the header X-Tags."
_DAY_LENGTHS = {"Spent today": 1, "Spent in 7 days": 7, "Spent in 30 days": 30}


class Tile(NamedTuple):
    """A figure with its name, and how it compares."""

    label: str
    value: str
    note: str = ""


class TopList(NamedTuple):
    """What used most in some time, with the bar's share of the largest, and where each leads."""

    title: str
    when: str
    rows: list[dict[str, Any]]
    empty: str = "Nothing in this period."


@page
def show_home(request: HttpRequest, page: PageContext) -> HttpResponse:
    scope, now = page.scope, page.now
    days, hours = usage.sum_by_day_and_hour(scope, now, days=_DAYS, hours=_HOURS)
    if not _add_up(days).requests and not has_requests(scope):
        waiting = {"first": _build_first_request(request, scope), "title": "Home"}
        return render_page(request, page, "console/first_request.html", waiting)
    points, step = days[-page.period.length.days :], DAY
    if page.period.length <= DAY:
        points, step = hours[-24:], HOUR
    used = _add_up(points)
    tokens_in = format_count_short(used.tokens_prompt)
    tokens_out = format_count_short(used.tokens_completion)
    moments = [point.start for point in points]
    spend = Series("Spend", [point.used.spend_nano / NANO_PER_USD for point in points])
    requests = Series("Requests", [point.used.requests for point in points])
    budgets = list_budgets(scope, now)
    context: dict[str, Any] = {
        "title": "Home",
        "spend_tiles": _list_spend_tiles(days, estimate_yesterday_nano(hours, now)),
        "tiles": [
            Tile("Requests", format_count_short(used.requests)),
            Tile("Failed or refused", format_percent(used.error_percent), "of all requests"),
            Tile("Tokens", format_count_short(used.tokens), f"{tokens_in} in, {tokens_out} out"),
        ],
        "spend_chart": bar_chart(moments, [spend], unit="usd", step=step),
        "request_chart": bar_chart(moments, [requests], unit="count", step=step),
        "first_token": describe_first_token("…", "…"),
        "top_key_titles": list_key_titles(scope),
        "budgets": [(use, find_budget_page(scope, use)) for use in budgets],
        "notices": list_notices(scope, budgets, now),
    }
    return render_page(request, page, "console/home.html", context)


# Parts that read a whole month are loaded after the page, each by a request of its own.


@page
def show_first_token(request: HttpRequest, page: PageContext) -> HttpResponse:
    latency = usage.read_latency(page.scope, page.period.start(page.now))
    tile = describe_first_token(format_ms(latency.p50_ms), format_ms(latency.p95_ms))
    return render_page(request, page, "console/parts/tile.html", {"tile": tile})


def describe_first_token(median: str, slowest: str) -> Tile:
    return Tile("First token", median, f"median; 95 % within {slowest}")


@page
def show_top_models(request: HttpRequest, page: PageContext) -> HttpResponse:
    scope, now = page.scope, page.now
    models = usage.list_top_models(scope, page.period.start(now), now)
    lists = [
        _build_top("Models", page.period.label, models, "model"),
        _build_top("Tags", "24 hours", usage.list_top_tags(scope, now), "tag", empty=_NO_TAG),
    ]
    return render_page(request, page, "console/parts/top_lists.html", {"tops": lists})


@page
def show_top_keys(request: HttpRequest, page: PageContext) -> HttpResponse:
    keys = usage.sum_by_key(page.scope, page.period.start(page.now), page.now)
    rows = {
        "Keys": (keys.list_top_keys, "key"),
        "People": (keys.list_top_people, "person"),
        "Workspaces": (keys.list_top_workspaces, "view"),
    }
    lists = []
    for title in list_key_titles(page.scope):
        list_rows, filter = rows[title]
        lists.append(_build_top(title, page.period.label, list_rows(), filter))
    return render_page(request, page, "console/parts/top_lists.html", {"tops": lists})


def list_key_titles(scope: Scope) -> list[str]:
    """The lists that the usage of keys makes in this view. One workspace alone makes none."""
    if scope.view.is_own:
        return ["Keys"]
    has_several = scope.view.workspace_ids is None or len(scope.view.workspace_ids) > 1
    return ["Keys", "People", "Workspaces"] if has_several else ["Keys", "People"]


@page
def show_first_request(request: HttpRequest, page: PageContext) -> HttpResponse:
    """The part of the page that waits for the first request, asked for twice a second."""
    context = {"first": _build_first_request(request, page.scope)}
    return render_page(request, page, "console/parts/first_request.html", context)


def _build_first_request(request: HttpRequest, scope: Scope) -> dict[str, Any]:
    """Lines to paste, and the newest request if there is one, with where it leads and what happened
    in a sentence."""
    newest = find_newest(scope)
    link, sentence = "", ""
    if newest is not None and newest.is_refused:
        link = reverse("console:refused", args=[newest.pk])
        sentence = f"The gateway answered {newest.status}: {describe_refusal(newest.refusal)}"
    elif newest is not None:
        link = reverse("console:request", args=[newest.pk])
        sentence = describe_in_a_sentence(newest._asdict())
    return {
        "snippets": list_snippets(request.build_absolute_uri("/")),
        "newest": newest,
        "link": link,
        "sentence": sentence,
    }


def estimate_yesterday_nano(hours: list[usage.UsagePoint], now: datetime) -> int:
    """What yesterday (UTC) had spent by this time: its full hours, and of the hour that goes on as
    much as has gone by."""
    same_time = now - DAY
    past = [each for each in hours if day_of(same_time) <= each.start <= same_time]
    going = past.pop().used.spend_nano
    return sum(each.used.spend_nano for each in past) + round(going * ((now - hour_of(now)) / HOUR))


def _list_spend_tiles(days: list[usage.UsagePoint], yesterday_nano: int) -> list[Tile]:
    """Today is compared with yesterday up to the same time, longer times with those before them."""
    tiles = []
    for label, length in _DAY_LENGTHS.items():
        spent_nano = _add_up(days[-length:]).spend_nano
        before_nano, when = _add_up(days[-2 * length : -length]).spend_nano, "before"
        if length == 1:
            before_nano, when = yesterday_nano, "by this time yesterday (UTC)"
        note = f"nothing {'in the time before' if length > 1 else when}"
        if before_nano:
            change = format_change(spent_nano, before_nano)
            note = f"{change}, {format_money_short(before_nano)} {when}"
        tiles.append(Tile(label, format_money_short(spent_nano), note))
    return tiles


def _add_up(points: list[usage.UsagePoint]) -> usage.UsageSum:
    return usage.add_up([point.used for point in points])


def _build_top(
    title: str, when: str, rows: list[usage.TopRow], filter: str, **empty: str
) -> TopList:
    requests = reverse("console:requests")
    most = max((row.used.spend_nano for row in rows), default=0) or 1
    return TopList(
        title,
        when,
        [
            {
                "name": row.name,
                "link": f"{requests}?{urlencode({filter: row.value})}" if row.value else "",
                "spend": format_money_short(row.used.spend_nano),
                "requests": format_count_short(row.used.requests),
                "percent": round(100 * row.used.spend_nano / most),
            }
            for row in rows
        ],
        **empty,
    )
