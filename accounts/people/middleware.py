"""The door that asks staff for a second factor."""

from collections.abc import Callable
from typing import Any, Final

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse

from accounts.people.adapter import list_factors, needs_second_factor
from gateway.http.middleware import is_page

# Where a factor is set up, and the way out.
_OPEN: Final = ("/console/you", "/console/sign-", "/static/", "/docs")


class PageSecondFactor:
    """Sends staff without a second factor to where they set one up, before any other page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_page(request) and not request.path_info.startswith(_OPEN):
            user: Any = request.user
            if user.is_authenticated and needs_second_factor(user) and not list_factors(user):
                return HttpResponseRedirect(reverse("mfa_index"))
        return self.get_response(request)
