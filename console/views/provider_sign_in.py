"""To an organization's identity provider, and back."""

import logging
from typing import Any

from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.models import Login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from accounts.identity.issuers import IssuerSilent
from accounts.people.admission import admit
from accounts.people.oidc import (
    SignInRefused,
    StrayAnswer,
    begin,
    complete,
    find_provider,
    forget_begun,
    keep_entry,
    read_begun,
)
from accounts.people.records import record_sign_in
from accounts.services.attempts import record_attempt
from accounts.sign_in import count_answer, forget_answer, use_state
from console.views.sign_in import find_target
from gateway.environment.sign_in import OidcProvider
from gateway.live_settings import settings

log = logging.getLogger("gateway.sign_in")


@require_safe
@never_cache
def go_to_provider(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    provider = _find(provider_id)
    try:
        return begin(
            request,
            provider,
            back_to=_build_back_url(request, provider),
            next_path=find_target(request, "console:home"),
        )
    except IssuerSilent as error:
        return _report_silence(request, provider, error)


@require_safe
@never_cache
def come_back(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """The person whom the provider names comes in, by a second factor where the person has one
    here.
    """
    answer = _look_at_answer(request, _find(provider_id))
    forget_begun(request, answer)
    return answer


def _look_at_answer(request: HttpRequest, provider: OidcProvider) -> HttpResponseBase:
    try:
        kept = read_begun(request, provider)
        # Each one that is looked at costs a row, and a request to the provider.
        if not count_answer(request):
            reason = f"too many answers of {provider.id}"
            record_attempt("turned away", object_type="sign_in", reason=reason)
            waiting = {"provider": provider, "must_wait": True}
            return render(request, "console/provider_refused.html", waiting, status=429)
        use_state(request.GET["state"])
        identity = complete(request, provider, kept, back_to=_build_back_url(request, provider))
        user = admit(identity)
    except IssuerSilent as error:
        forget_answer(request)
        return _report_silence(request, provider, error)
    except SignInRefused as refusal:
        # Of stray answers, which cost nothing to send, not all are on record.
        if not isinstance(refusal, StrayAnswer) or count_answer(request, is_stray=True):
            reason = str(refusal)[:200]
            record_sign_in(request, "failed", user=None, provider=provider.id, reason=reason)
        context = {"provider": provider}
        return render(request, "console/provider_refused.html", context, status=403)
    forget_answer(request)
    record_authentication(request, user, "oidc", provider=provider.id)
    keep_entry(request, identity)
    login = Login(user=user, redirect_url=kept["next"])
    answer: HttpResponseBase = perform_login(request, login)
    return answer


def _find(provider_id: str) -> OidcProvider:
    provider = find_provider(provider_id)
    if provider is None:
        raise Http404
    return provider


def _build_back_url(request: HttpRequest, provider: OidcProvider) -> str:
    path = reverse("provider_back", args=[provider.id])
    root: Any = settings.PUBLIC_URL
    return root.rstrip("/") + path if root else request.build_absolute_uri(path)


def _report_silence(
    request: HttpRequest, provider: OidcProvider, error: IssuerSilent
) -> HttpResponse:
    log.warning("The identity provider %s does not answer: %s", provider.id, error)
    context = {"provider": provider}
    return render(request, "console/provider_silent.html", context, status=503)
