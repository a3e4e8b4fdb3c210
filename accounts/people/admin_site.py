"""The admin's door: it asks the one table of roles before any page."""

from django.http import HttpRequest
from unfold.sites import UnfoldAdminSite

from accounts.roles import Action, may_everywhere


class OperatorSite(UnfoldAdminSite):
    """For operators of the gateway. Django's permissions narrow what such a person may there."""

    def has_permission(self, request: HttpRequest) -> bool:
        return may_everywhere(request.user, Action.GATEWAY)
