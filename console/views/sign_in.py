"""Signing in and out: the front page, one-time links, the way from the admin, and what belongs to a
person alone: second factors, passkeys and sessions."""

from datetime import UTC, datetime
from typing import Any, Final

from allauth.account import views as account
from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.models import Login
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render, resolve_url
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.people.adapter import list_factors, needs_second_factor
from accounts.people.addresses import (
    ask_to_confirm,
    confirm_address,
    find_person,
    needs_confirmation,
)
from accounts.people.oidc import build_sign_out_url
from console.listing import Filter, Listing, has_words, write_buttons
from console.page import PageContext, page, render_open_page, secure
from console.playground_keys import end_playground_keys
from console.sign_in_links import find_linked_user, use_link
from console.table import Column
from console.views.home import show_home
from console.views.password import may_have_password
from gateway.http.errors import MethodNotAllowed, UnknownPath
from gateway.http.responses import error_response

_show_form = secure(account.login)
SESSIONS: Final = (
    Column("Since", lambda row: row.created_at, "time", order="since"),
    Column("Address", lambda row: row.ip, order="address"),
    Column("Browser", lambda row: row.user_agent[:60]),
)


def front_page(request: HttpRequest) -> HttpResponseBase:
    """`/`: home for people who are signed in, a sign-in form for others. Programs that ask for no
    HTML get the API's own answer to an unknown path."""
    if "text/html" not in request.headers.get("Accept", ""):
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
    """Out of here; whoever came by a provider is offered to sign out there too."""
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
        "is_missing": needs_second_factor(user) and not factors,
        "has_factors": bool(factors),
        "may_have_password": may_have_password(user),
        "list": sessions,
    }
    return render(request, "console/you.html", context)


@require_POST
@login_required
def end_sessions(request: HttpRequest) -> HttpResponse:
    """End the session that the form names, or all others."""
    sessions = UserSession.objects.filter(user=request.user.pk)
    if number := request.POST.get("session", ""):
        sessions = sessions.filter(pk=number) if number.isdecimal() else sessions.none()
    else:
        sessions = sessions.exclude(session_key=request.session.session_key)
    for session in sessions:
        session.end()
    return HttpResponseRedirect(reverse("mfa_index"))


def find_target(request: HttpRequest, otherwise: str) -> str:
    """The page of ours that the query names."""
    target = request.GET.get("next", "")
    ours = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return target if ours else reverse(otherwise)
