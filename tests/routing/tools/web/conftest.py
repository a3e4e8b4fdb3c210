"""A site of the web on this machine, which the operator let the tool reach."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.web_site import WebSite, serve_web_site


@pytest.fixture(scope="module")
def running_web_site() -> Iterator[WebSite]:
    from routing.fetching import doors, pages

    with serve_web_site() as site:
        yield site
    for door in (doors._guarded(), doors._open()):
        door.close_idle()
    pages.end_readers()


@pytest.fixture
def site(running_web_site: WebSite, settings: Any) -> WebSite:
    settings.ROUTER_FETCH_PRIVATE_HOSTS = frozenset({"127.0.0.1"})
    running_web_site.met.clear()
    return running_web_site
