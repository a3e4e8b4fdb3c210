"""What every page shares: who may open it, its frame, and the headers it carries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, wraps
from typing import Any, Final, NamedTuple, TypeVar

from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
)
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode

from accounts.roles import Action
from console.scope import Role, Scope, find_scope
from gateway.http.errors import GatewayError
from routing.history.spans import DAY, HOUR, day_of, hour_of

# Scripts and styles are files of ours: no page has any in its text, so there is nothing to mark
# with a nonce.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
_PERIOD_KEPT: Final = "console_period"


class Period(NamedTuple):
    """A stretch of time that pages sum up, until now."""

    value: str
    label: str
    length: timedelta

    def start(self, now: datetime) -> datetime:
        """The first hour or day (UTC) of as many as are named, with the one that goes on: full
        ones have been summed up."""
        if self.length <= DAY:
            return hour_of(now) - self.length + HOUR
        return day_of(now) - self.length + DAY


PERIODS: Final = (
    Period("24h", "24 hours", timedelta(days=1)),
    Period("7d", "7 days", timedelta(days=7)),
    Period("30d", "30 days", timedelta(days=30)),
)


@cache
def _find_address(url_name: str) -> str:
    return reverse(url_name)


class NavItem(NamedTuple):
    """A page in the sidebar: its URL's name, and the least role it is for, or what one may do who
    sees it."""

    label: str
    url_name: str
    icon: str
    least: Role = Role.MEMBER
    action: Action | None = None

    @property
    def address(self) -> str:
        return _find_address(self.url_name)


class NavSection(NamedTuple):
    """Pages of one subject."""

    label: str
    items: Sequence[NavItem]


# A new page is a row here and a path in `console/urls.py`.
SECTIONS: Final = (
    NavSection(
        "Use",
        (
            NavItem("Home", "console:home", "home"),
            NavItem("Requests", "console:requests", "list"),
            NavItem("Playground", "console:playground", "play"),
            NavItem("Models", "console:models", "cube"),
            NavItem("Providers", "console:providers", "server"),
            NavItem("Presets", "console:presets", "bookmark"),
            NavItem("Decisions", "console:decisions", "gauge"),
            NavItem("Interns", "console:interns", "intern"),
            NavItem("What-if", "console:what_if", "scales"),
        ),
    ),
    NavSection(
        "Manage",
        (
            NavItem("Keys", "console:keys", "key"),
            NavItem("Workspaces", "console:workspaces", "folder", Role.LEAD),
            NavItem("People", "console:people", "people", Role.ADMIN),
            NavItem("Guardrails", "console:guardrails", "shield", Role.LEAD),
            NavItem("Credits", "console:credits", "coins", action=Action.BILLING),
            NavItem("Settings", "console:settings", "tools"),
        ),
    ),
)
_RANKS: Final = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True)
class PageContext:
    """What a view gets beside the request: whose view of what, over which period, and when."""

    scope: Scope
    period: Period
    now: datetime


Response = TypeVar("Response", bound=HttpResponseBase)
PageView = Callable[..., HttpResponseBase]


def page(view: PageView) -> PageView:
    """Makes `view(request, page, ...)` a page of the console: for people who are signed in only."""

    @wraps(view)
    def serve(request: HttpRequest, *args: Any, **path: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            if request.headers.get("HX-Request"):
                return HttpResponse(status=204, headers={"HX-Redirect": reverse("console:home")})
            # To the front page, and back here afterwards.
            query = urlencode({"next": request.get_full_path()})
            return HttpResponseRedirect(f"{reverse('console:home')}?{query}")
        context = None
        try:
            scope = find_scope(request)
            if scope is None:
                return _secure(render(request, "console/no_account.html", status=403))
            context = PageContext(scope, _find_period(request), datetime.now(UTC))
            return _secure(view(request, context, *args, **path))
        except Http404:
            frame = _frame(request, context)
            return _secure(render(request, "console/not_found.html", frame, status=404))
        except GatewayError as refusal:
            frame = _frame(request, context)
            reason = {"title": "That did not work", "text": refusal.text, **frame}
            return _secure(render(request, "console/refused.html", reason, status=refusal.status))

    return serve


def secure(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """The view with the headers that every page carries, for people who are not signed in too."""

    @wraps(view)
    def serve(request: HttpRequest, *args: Any, **path: Any) -> HttpResponseBase:
        return _secure(view(request, *args, **path))

    return serve


def render_page(
    request: HttpRequest,
    page: PageContext,
    template: str,
    context: Mapping[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    """The page in its frame; for a part that the page's script asked for, the template alone."""
    whole = {**_frame(request, page), **context}
    return render(request, template, whole, status=status)


def render_open_page(
    request: HttpRequest, template: str, context: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    """A page for somebody who is not signed in."""
    return _secure(render(request, template, context, status=status))


def keep_query(request: HttpRequest, **changes: str | None) -> str:
    """The query of this page with some fields changed (None: left out), as `?a=b`."""
    given = request.GET.dict()
    fields = {name: str(given[name]) for name in given if name not in ("part", "csv")}
    for name, value in changes.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value
    return "?" + urlencode(fields)


def _find_period(request: HttpRequest) -> Period:
    """The named one, else the one chosen last, else a week. An unknown name counts as none."""
    by_value = {period.value: period for period in PERIODS}
    named = by_value.get(request.GET.get("period", ""))
    if named is not None:
        if request.session.get(_PERIOD_KEPT) != named.value:
            request.session[_PERIOD_KEPT] = named.value
        return named
    return by_value.get(request.session.get(_PERIOD_KEPT, ""), PERIODS[1])


def _frame(request: HttpRequest, page: PageContext | None = None) -> dict[str, Any]:
    rank = _RANKS[page.scope.role] if page else 0
    sections = [
        section._replace(items=[item for item in section.items if _is_for(item, page, rank)])
        for section in SECTIONS
    ]
    return {"page": page, "sections": sections, "periods": PERIODS}


def _is_for(item: NavItem, page: PageContext | None, rank: int) -> bool:
    if item.action is not None:
        return page is not None and page.scope.allows(item.action)
    return _RANKS[item.least] <= rank


def _secure(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["Cache-Control"] = "no-store"
    return response
