"""A running intern with its door, and a site behind it. Read before Django is set up."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.gateway.outbound.conftest import certificate, server_tls, trusting
from tests.interns.outbound.site import Site, serve_site

__all__ = ["certificate", "server_tls", "trusting"]

if TYPE_CHECKING:
    from tests.interns.outbound.door import Door


@pytest.fixture(scope="module")
def running_site() -> Iterator[Site]:
    from gateway.outbound import doors

    with serve_site() as site:
        yield site
    for private in ((), ("any",)):
        doors.door_for("any", private=private).close_idle()


@pytest.fixture
def site(running_site: Site) -> Site:
    running_site.met.clear()
    return running_site


@pytest.fixture
def door(db: None, site: Site, settings: Any) -> "Door":
    """The operator let interns reach this machine by both of its names."""
    from tests.interns.outbound.door import open_door

    settings.INTERN_FETCH_PRIVATE_HOSTS = frozenset({"127.0.0.1", "localhost"})
    return open_door(site)
