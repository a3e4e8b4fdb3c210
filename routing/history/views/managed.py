"""What the views of history have in common."""

from django.http import HttpRequest

from accounts.authentication import management_caller
from accounts.caller import Caller
from gateway.http.errors import GatewayError
from gateway.http.viewset import LeanViewSet


class Managed(LeanViewSet):
    """Management keys only. The list of statuses has no 503, so a silent database is a 500."""

    def manager(self, request: HttpRequest) -> Caller:
        caller = management_caller(request)
        self.beside = {"user_id": caller.creator_id}
        return caller

    def database_gone(self) -> GatewayError:
        return GatewayError()
