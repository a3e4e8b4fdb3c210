"""Whether a caller may send requests to a regional host."""

from django.http import HttpRequest

from accounts.caller import Caller
from accounts.models.guardrail import DATA_REGIONS
from gateway.http.address import MAIN_REGION, find_region
from gateway.http.errors import PermissionDenied


def list_allowed_regions(caller: Caller) -> list[str]:
    """The data regions whose hosts take the caller's requests."""
    return [each for each in DATA_REGIONS if _admits(caller, each)]


def check_region(request: HttpRequest, caller: Caller) -> str:
    """The data region of the host that the request came in by.

    Raises `PermissionDenied` where the account is not entitled to regional hosts, or a guardrail
    does not allow the region.
    """
    region = find_region(request)
    if not _admits(caller, region):
        raise PermissionDenied
    return region


def _admits(caller: Caller, region: str) -> bool:
    if region != MAIN_REGION and not caller.regional_inference:
        return False
    return caller.guard is None or caller.guard.admits(region)
