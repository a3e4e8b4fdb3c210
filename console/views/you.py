"""What belongs to the person alone: second factors, passkeys, and where somebody is signed in."""

from typing import Any

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from accounts.people.adapter import list_factors, needs_second_factor


@require_safe
@login_required
def show_factors(request: HttpRequest) -> HttpResponse:
    user: Any = request.user
    factors = list_factors(user)
    kinds = {each.type for each in factors}
    sessions = UserSession.objects.purge_and_list(user)
    context = {
        "app": Authenticator.Type.TOTP in kinds,
        "passkeys": [each.wrap() for each in factors if each.type == Authenticator.Type.WEBAUTHN],
        "is_missing": needs_second_factor(user) and not factors,
        "has_factors": bool(factors),
        "sessions": sorted(sessions, key=lambda each: each.created_at, reverse=True),
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
