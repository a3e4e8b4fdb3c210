"""Data regions by host name."""

from typing import Final

from django.http import HttpRequest

from gateway.live_settings import settings

MAIN: Final = "global"


def region_of(request: HttpRequest) -> str:
    """The data region whose host name the request came in by: "global", "europe" or "us"."""
    hosts: dict[str, str] = settings.REGIONAL_HOSTS
    if not hosts:
        return MAIN
    host = str(request.META.get("HTTP_HOST", "")).lower()
    name, _, port = host.rpartition(":")
    return hosts.get(name if port.isdecimal() else host, MAIN)
