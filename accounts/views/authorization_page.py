"""The page /auth, where a person lets an app have a key, or refuses."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from django import forms
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render, resolve_url
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods
from pydantic import AfterValidator, Field

from accounts.models import ApiKey, User, Workspace
from accounts.money import usd_to_nano
from accounts.services.oauth import (
    CALLBACK_CHARS_MAX,
    AppRequest,
    add_parameter,
    authorize_app,
    check_challenge,
    select_usable_workspaces,
)
from accounts.services.records import operator_actor
from accounts.views.schemas.oauth import CHALLENGE_CHARS_MAX, Method, check_callback
from gateway.http.errors import GatewayError, InvalidRequest, SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.middleware import PAGE_POLICY
from gateway.http.resources import Query

_USD_MAX: Final = 1_000_000_000
_FOR_EVER: Final = "0"
_LIFETIMES: Final = (
    (_FOR_EVER, "Until it is revoked"),
    ("30", "30 days"),
    ("90", "90 days"),
    ("365", "A year"),
)


class AuthorizationQuery(Query):
    """What an app asks for in the address of the page."""

    callback_url: (
        Annotated[str, Field(max_length=CALLBACK_CHARS_MAX), AfterValidator(check_callback)] | None
    ) = None
    code_challenge: Annotated[str, Field(max_length=CHALLENGE_CHARS_MAX)] | None = None
    code_challenge_method: Method | None = None
    key_label: Annotated[str, Field(max_length=100)] | None = None


class AuthorizationForm(forms.Form):
    """What the person makes of it. The limit is in USD."""

    workspace = forms.ModelChoiceField(Workspace.objects.none(), empty_label=None)
    limit_usd = forms.DecimalField(
        label="Limit in USD",
        required=False,
        min_value=0,
        max_value=_USD_MAX,
        decimal_places=9,
        help_text="Empty for no limit.",
    )
    limit_reset = forms.ChoiceField(
        label="The limit begins anew",
        required=False,
        choices=[("", "Never"), *ApiKey.Reset.choices],
    )
    lifetime = forms.ChoiceField(label="The key works", choices=_LIFETIMES)

    def __init__(self, user: User, *args: Any) -> None:
        super().__init__(*args)
        workspaces: Any = self.fields["workspace"]
        workspaces.queryset = select_usable_workspaces(user)

    def build_request(self, query: AuthorizationQuery) -> AppRequest:
        """The request of the app within what the person allows."""
        chosen, days = self.cleaned_data, int(self.cleaned_data["lifetime"])
        limit = chosen["limit_usd"]
        method = query.code_challenge_method or "plain"
        return AppRequest(
            callback_url=query.callback_url or "",
            challenge=query.code_challenge or "",
            method=method if query.code_challenge else "",
            key_label=query.key_label or "",
            limit_nano=None if limit is None else usd_to_nano(limit),
            limit_reset=chosen["limit_reset"] or None,
            expires_at=datetime.now(UTC) + timedelta(days=days) if days else None,
        )


# Other methods are 405 before anybody asks for a token.
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
@csrf_protect
@never_cache
def authorize(request: HttpRequest) -> HttpResponse:
    """Show who asks, and do what the person decides."""
    try:
        query = AuthorizationQuery.read(request.GET.dict())
        if not query.callback_url and not query.code_challenge:
            raise InvalidRequest("code_challenge: it is needed where there is no callback_url")
        if query.code_challenge_method and not query.code_challenge:
            raise InvalidRequest("code_challenge_method needs code_challenge")
        check_challenge(query.code_challenge_method)
    except GatewayError as error:
        return _show(request, {"refusal": error.text}, status=error.status)
    user: Any = request.user
    if not user.is_authenticated:
        return redirect_to_login(request.get_full_path(), resolve_url(settings.LOGIN_URL))
    if request.method == "POST" and request.POST.get("decision") != "allow":
        return _answer(request, query, "error", "access_denied", {"is_refused": True})
    form = AuthorizationForm(user, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            _, code = authorize_app(
                asked=form.build_request(query),
                workspace=form.cleaned_data["workspace"],
                creator=user,
                by=operator_actor(user),
            )
        except SchemaInvalid as error:
            form.add_error("limit_usd", error.text.partition(": ")[2])
        else:
            return _answer(request, query, "code", code, {"code": code})
    return _ask(request, query, form)


def _ask(request: HttpRequest, query: AuthorizationQuery, form: AuthorizationForm) -> HttpResponse:
    workspaces: Any = form.fields["workspace"]
    response = _show(
        request,
        {
            "form": form,
            "host": urlsplit(query.callback_url).netloc if query.callback_url else "",
            "key_label": query.key_label,
            "has_workspace": workspaces.queryset.exists(),
        },
        status=400 if form.is_bound else 200,
    )
    if query.callback_url:
        # Browsers hold a redirect after a form to the policy of the form's page as well.
        parts = urlsplit(query.callback_url)
        policy = f"{PAGE_POLICY} {parts.scheme}://{parts.netloc}"
        response["Content-Security-Policy"] = policy
    return response


def _answer(
    request: HttpRequest, query: AuthorizationQuery, name: str, value: str, context: JsonObject
) -> HttpResponse:
    """Tell the app by its callback; where it has none, the person."""
    if query.callback_url:
        return HttpResponseRedirect(add_parameter(query.callback_url, name, value))
    return _show(request, context)


def _show(request: HttpRequest, context: JsonObject, *, status: int = 200) -> HttpResponse:
    return render(request, "accounts/authorize.html", context, status=status)
