"""Signing in and out: the front page, one-time links, and the way from the admin. Also what belongs
to a person alone: the password, second factors, passkeys and sessions."""

import time
from datetime import UTC, datetime
from typing import Any, Final

from allauth.account import views as account
from allauth.account.adapter import get_adapter
from allauth.account.decorators import reauthentication_required
from allauth.account.internal.flows.login import (
    get_authentication_records,
    perform_login,
    record_authentication,
)
from allauth.account.models import Login
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django import forms
from django.contrib import messages
from django.contrib.auth import logout, update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render, resolve_url
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.models import User
from accounts.people.adapter import lacks_second_factor, list_factors, may_have_password
from accounts.people.addresses import (
    ask_to_confirm,
    confirm_address,
    find_person,
    needs_confirmation,
)
from accounts.people.oidc import build_sign_out_url
from accounts.people.records import record_sign_in
from accounts.services.attempts import record_attempt
from accounts.services.keys import end_playgrounds
from accounts.services.records import operator_actor
from console.listing import Filter, Listing, has_words, write_buttons
from console.page import PageContext, page, render_open_page, secure
from console.playground_keys import end_playground_keys
from console.sign_in_links import find_linked_user, have_link_mailed, use_link
from console.table import Column
from console.views.home import show_home
from console.words import describe_browser
from gateway.http.errors import MethodNotAllowed, UnknownPath
from gateway.http.responses import error_response
from gateway.live_settings import settings

_show_form = secure(account.login)
_PROOF_S: Final = 600
_NAME_CHARS_MAX: Final = 254
SESSIONS: Final = (
    Column("Since", lambda row: row.created_at, "time", order="since"),
    Column("Address", lambda row: row.ip, order="address"),
    Column("Browser", lambda row: describe_browser(row.user_agent)),
)


def front_page(request: HttpRequest) -> HttpResponseBase:
    """`/`: home for people who are signed in, a sign-in form for others. Programs that would rather
    have JSON than HTML get the API's own answer to an unknown path."""
    if request.get_preferred_type(["text/html", "application/json"]) == "application/json":
        return error_response(UnknownPath())
    if request.method not in ("GET", "HEAD"):
        return error_response(MethodNotAllowed(headers={"Allow": "GET, HEAD"}))
    if request.user.is_authenticated:
        return show_home(request)
    return _show_form(request)


@require_safe
def sign_in_to_admin(request: HttpRequest) -> HttpResponse:
    """Where the admin sends whom it does not let in: to sign in, or back if that has happened."""
    if request.user.is_authenticated:
        return render(request, "console/no_operator.html", status=403)
    return redirect_to_login(find_target(request, "admin:index"), resolve_url("account_login"))


@require_http_methods(["GET", "HEAD", "POST"])
def link(request: HttpRequest, public_id: str, token: str) -> HttpResponseBase:
    """A one-time link. Looking at it changes nothing: mail programs and browsers look ahead."""
    if request.method == "POST":
        person = find_linked_user(public_id, token)
        if person is not None and needs_confirmation(person):
            # The link is still good once the address is confirmed.
            return ask_to_confirm(request, person)
        user = use_link(public_id, token)
        if user is None:
            return render_open_page(request, "console/link_used.html", {}, status=410)
        record_authentication(request, user, "link")
        if may_have_password(user) and not user.has_usable_password():
            text = 'You have no password: <a href="{}">choose one</a> before you sign out.'
            messages.warning(request, format_html(text, reverse("change_password")))
        answer: HttpResponseBase = perform_login(request, Login(user=user))
        return answer
    user = find_linked_user(public_id, token)
    if user is None:
        return render_open_page(request, "console/link_used.html", {}, status=410)
    return render_open_page(request, "console/link.html", {"person": user})


@require_http_methods(["GET", "HEAD", "POST"])
def confirm_own_address(request: HttpRequest, token: str) -> HttpResponse:
    """The link in a mail. As of one that signs in, looking at it changes nothing."""
    is_form = request.method == "POST"
    user = confirm_address(request, token) if is_form else find_person(token)
    if user is None:
        return render_open_page(request, "console/address_link_used.html", {}, status=410)
    context = {"person": user, "is_confirmed": is_form}
    return render_open_page(request, "console/address.html", context)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """Out of here; a person who came by a provider is offered to sign out there too."""
    elsewhere = build_sign_out_url(request, back_to=request.build_absolute_uri("/"))
    if request.user.is_authenticated:
        end_playground_keys(request, datetime.now(UTC))
    logout(request)
    if elsewhere is None:
        return HttpResponseRedirect(reverse("console:home"))
    provider, url = elsewhere
    return render_open_page(request, "console/signed_out.html", {"provider": provider, "url": url})


@page
def show_nothing(request: HttpRequest, page: PageContext) -> HttpResponse:
    """Where no page is. `/console` is where people look for home."""
    if request.path_info.rstrip("/") == "/console":
        return HttpResponseRedirect(reverse("console:home"))
    raise Http404


@require_safe
@login_required
def show_factors(request: HttpRequest) -> HttpResponse:
    user: Any = request.user
    factors = list_factors(user)
    kinds = {each.type for each in factors}
    sessions = Listing[UserSession](
        request,
        (*SESSIONS, write_buttons(request, "console/parts/session_actions.html")),
        "Sessions",
        filters=[
            Filter(
                "text", "Address or browser", has_words(lambda row: f"{row.ip} {row.user_agent}")
            )
        ],
        order="-since",
        name="sessions",
    )
    sessions.load_whole(UserSession.objects.purge_and_list(user))
    if sessions.is_csv:
        return sessions.respond()
    context = {
        "app": Authenticator.Type.TOTP in kinds,
        "passkeys": [each.wrap() for each in factors if each.type == Authenticator.Type.WEBAUTHN],
        "is_missing": lacks_second_factor(request, user) and not factors,
        "has_factors": bool(factors),
        "may_have_password": may_have_password(user),
        "list": sessions,
    }
    return render(request, "console/you.html", context)


def _build_field(label: str, autocomplete: str, help_text: str = "") -> forms.CharField:
    widget = forms.PasswordInput(attrs={"autocomplete": autocomplete})
    return forms.CharField(label=label, strip=False, widget=widget, help_text=help_text)


class PasswordForm(forms.Form):
    """The current password, unless `is_proved` says who asks, and twice the new one."""

    old = _build_field("Your password of now", "current-password")
    new = _build_field("The new password", "new-password", "8 characters at least.")
    again = _build_field("The new password again", "new-password")

    def __init__(self, user: User, data: Any = None, *, is_proved: bool) -> None:
        super().__init__(data)
        self._user = user
        if is_proved:
            del self.fields["old"]

    def clean(self) -> dict[str, Any]:
        """Whether the old one is right is asked last: each such question counts as a try."""
        cleaned: dict[str, Any] = super().clean() or {}
        if self.errors:
            return cleaned
        if cleaned["new"] != cleaned["again"]:
            self.add_error("again", "This is another one than above.")
            return cleaned
        try:
            validate_password(cleaned["new"], self._user)
        except forms.ValidationError as error:
            self.add_error("new", error)
            return cleaned
        if "old" in cleaned and not get_adapter().reauthenticate(self._user, cleaned["old"]):
            self.add_error("old", "This is not it. After several tries, wait a little.")
        return cleaned


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
@reauthentication_required(  # type: ignore[untyped-decorator]  # allauth's.
    enabled=lambda request: not request.user.has_usable_password()
)
def change_password(request: HttpRequest) -> HttpResponse:
    """Set it, which ends all other sessions and links of the person."""
    user: Any = request.user
    if not may_have_password(user):
        raise Http404
    form = PasswordForm(
        user,
        request.POST if request.method == "POST" else None,
        is_proved=not user.has_usable_password() or _came_by_link(request),
    )
    if request.method != "POST" or not form.is_valid():
        status = 400 if form.is_bound else 200
        return render(request, "console/password.html", {"form": form}, status=status)
    user.set_password(form.cleaned_data["new"])
    user.save(update_fields=["password"])
    # Sessions that began with the old one are known by it.
    update_session_auth_hash(request, user)
    UserSession.objects.create_from_request(request)
    sessions = UserSession.objects.filter(user=user)
    for session in sessions.exclude(session_key=request.session.session_key):
        session.end()
    end_playgrounds(user, by=operator_actor(user))
    record_sign_in(request, "password changed", user=user, by=operator_actor(user))
    messages.success(request, "Your password is changed. All other sessions have ended.")
    return HttpResponseRedirect(reverse("mfa_index"))


def _came_by_link(request: HttpRequest) -> bool:
    """So lately that it proves who asks, as the password would: who forgot it came so."""
    since = time.time() - _PROOF_S
    user: Any = request.user
    steps = get_authentication_records(request, user)
    return any(step["method"] == "link" and step["at"] > since for step in steps)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def ask_for_link(request: HttpRequest) -> HttpResponse:
    """Have a link mailed to who forgot the password. The page says the same whoever that is, and
    says it in the same time: a worker finds out."""
    if not settings.EMAIL_CONFIRMATION:
        raise Http404
    name, is_queued = request.POST.get("name", "").strip()[:_NAME_CHARS_MAX], True
    if name:
        record_attempt("link asked for", object_type="sign_in")
        is_queued = have_link_mailed(name)
    context = {"is_asked": bool(name), "is_queued": is_queued}
    status = 200 if is_queued else 503
    return render_open_page(request, "console/forgotten.html", context, status=status)


@require_POST
@login_required
@reauthentication_required
def end_sessions(request: HttpRequest) -> HttpResponse:
    """End the session that the form names, or all others."""
    sessions = UserSession.objects.filter(user=request.user.pk)
    if number := request.POST.get("session", ""):
        sessions = sessions.filter(pk=number) if number.isdecimal() else sessions.none()
    else:
        sessions = sessions.exclude(session_key=request.session.session_key)
    for session in sessions:
        session.end()
    if count := len(sessions):
        user: Any = request.user
        by = operator_actor(user)
        # The session that stays has a new one when it asks.
        end_playgrounds(user, by=by)
        record_sign_in(request, "sessions ended", user=user, by=by, count=count)
    return HttpResponseRedirect(reverse("mfa_index"))


def find_target(request: HttpRequest, otherwise: str) -> str:
    """The page of ours that the query names."""
    target = request.GET.get("next", "")
    ours = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return target if ours else reverse(otherwise)
