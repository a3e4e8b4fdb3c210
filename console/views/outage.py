"""Making a simulated provider of a demo fail, to watch how others take over."""

from typing import Final, NamedTuple
from urllib.parse import urlsplit

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.page import PageContext, page
from gateway.database.db import release_connection
from gateway.http.errors import Conflict
from routing.catalogue.snapshot import catalogue

_OUTAGE_S: Final = 60
_SIMULATED: Final = "simulated-"
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_LIMIT_S: Final = 3.0


class SimulatedProvider(NamedTuple):
    """A provider of the demo catalogue, and where its simulator listens."""

    slug: str
    name: str
    control_url: str


class SimulatorGone(Conflict):
    message = "The simulated provider does not answer. It runs as long as `make run` does."


def find_simulated(slug: str = "simulated-thrifty") -> SimulatedProvider | None:
    """The simulated provider of that slug, if the catalogue has one on this machine."""
    provider = catalogue.current().providers.get(slug)
    if provider is None or not slug.startswith(_SIMULATED):
        return None
    parts = urlsplit(provider.base_url)
    persona, _, rest = parts.path.lstrip("/").partition("/")
    if parts.hostname not in _LOOPBACK or rest != "v1":
        return None
    name = provider.name.removeprefix("Simulated ")
    return SimulatedProvider(slug, name, f"{parts.scheme}://{parts.netloc}/_outage/{persona}")


def fail_for_a_minute(provider: SimulatedProvider) -> None:
    """Have it refuse every call for a minute. Raises `SimulatorGone`."""
    # Web processes hold what serves requests; this serves one button of the demo.
    import requests

    release_connection()
    try:
        answer = requests.put(
            provider.control_url,
            json={"seconds": _OUTAGE_S},
            timeout=_LIMIT_S,
            allow_redirects=False,
        )
        answer.raise_for_status()
    except requests.RequestException:
        raise SimulatorGone from None


@require_POST
@page
def begin_outage(request: HttpRequest, page: PageContext) -> HttpResponse:
    """For operators."""
    provider = find_simulated() if page.scope.is_operator else None
    if provider is None:
        raise Http404
    fail_for_a_minute(provider)
    text = f"{provider.name} fails every request for a minute. Make some, and watch who takes over."
    messages.warning(request, text)
    return HttpResponseRedirect(reverse("console:requests"))
