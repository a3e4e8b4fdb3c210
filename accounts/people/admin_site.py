"""The admin's door: it asks the one table of roles before any page."""

from typing import Any

from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from unfold.sites import UnfoldAdminSite

from accounts.roles import Action, may_everywhere


class OperatorSite(UnfoldAdminSite):
    """For operators of the gateway. Django's permissions narrow what such a person may there."""

    def has_permission(self, request: HttpRequest) -> bool:
        return may_everywhere(request.user, Action.GATEWAY)

    def password_change(  # type: ignore[override]  # An answer all the same.
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponseRedirect:
        """Where everybody changes it: tries are counted there, and other sessions end."""
        return HttpResponseRedirect(reverse("change_password"))
