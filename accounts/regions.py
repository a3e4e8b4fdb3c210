"""Whether a caller may send requests to a regional host (management reference 2.4)."""

from django.http import HttpRequest

from accounts.caller import Caller
from gateway.http.errors import PermissionDenied
from gateway.regions import MAIN, region_of


def permitted_region(request: HttpRequest, caller: Caller) -> str:
    """The data region of the host that the request came in by.

    Raises `PermissionDenied` where the account is not entitled to regional hosts, or a guardrail
    does not allow the region.
    """
    region = region_of(request)
    if region != MAIN and not caller.regional_inference:
        raise PermissionDenied
    if caller.guard is not None and not caller.guard.admits(region):
        raise PermissionDenied
    return region
