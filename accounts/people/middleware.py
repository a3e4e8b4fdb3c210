"""The door that asks staff for a second factor."""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

from allauth.account.internal.flows.login import (
    get_authentication_records,
    record_authentication,
)
from allauth.mfa import signals as factors
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse

from accounts.people.adapter import list_factors, needs_second_factor
from gateway.http.middleware import is_page

# The ways in and out, and what everybody may read.
_OPEN: Final = ("/console/sign-", "/static/", "/docs")
# Where a factor is set up.
_SETUP: Final = "/console/you"


@receiver(factors.authenticator_added)
def count_new_factor(
    sender: Any, request: HttpRequest, user: Any, authenticator: Any, **_: Any
) -> None:
    """Whoever sets a factor up proves to have it, so that this session has used it."""
    if authenticator.type != authenticator.Type.RECOVERY_CODES:
        facts = {"id": authenticator.pk, "type": authenticator.type}
        record_authentication(request, user, "mfa", **facts)


class PageSecondFactor:
    """Sends staff whose session has used no second factor to where they use one, or set the first
    one up, before any other page.

    That there is a factor says nothing of a session that began before it: somebody else's, who
    knows the password.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_page(request) and not request.path_info.startswith(_OPEN):
            user: Any = request.user
            if user.is_authenticated and needs_second_factor(user):
                steps = get_authentication_records(request, user)
                if all(step["method"] != "mfa" for step in steps):
                    return self._ask_for_factor(request, user)
        return self.get_response(request)

    def _ask_for_factor(self, request: HttpRequest, user: Any) -> HttpResponseBase:
        kinds = {each.type for each in list_factors(user)}
        if not kinds:
            if request.path_info.startswith(_SETUP):
                return self.get_response(request)
            return HttpResponseRedirect(reverse("mfa_index"))
        by_code, by_passkey = reverse("mfa_reauthenticate"), reverse("mfa_reauthenticate_webauthn")
        if request.path_info in (by_code, by_passkey):
            return self.get_response(request)
        query = urlencode({"next": request.get_full_path()})
        return HttpResponseRedirect(f"{by_code if 'totp' in kinds else by_passkey}?{query}")
