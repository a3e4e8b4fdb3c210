"""What the views that manage an account have in common."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from accounts.authentication import management_caller
from accounts.caller import Caller
from gateway.http.body import read_object
from gateway.http.errors import GatewayError
from gateway.http.viewset import LeanViewSet


class ManagedViewSet(LeanViewSet):
    """Management keys only. The list of statuses has no 503, so a silent database is a 500."""

    def manager(self, request: HttpRequest) -> Caller:
        """Whoever asks. Raises what `management_caller` raises."""
        caller = management_caller(request)
        self.beside = {"user_id": caller.creator_id}
        return caller

    def database_gone(self) -> GatewayError:
        return GatewayError()


def managed_body(request: HttpRequest) -> dict[str, Any]:
    """The JSON object that a management request brings. Raises what `read_object` raises."""
    return read_object(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)
