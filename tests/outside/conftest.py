from collections.abc import Iterator

import pytest

from tests.outside.outsider import Outsider


@pytest.fixture(scope="session")
def outsider() -> Iterator[Outsider]:
    """One home for all of these tests, each of which starts or stops the gateway as it needs it."""
    # docs/reference/accounts.md says to start it with such a secret. Another test bounds the wait
    # for a queue, and this machine may be busy.
    outsider = Outsider(CREDITS_WEBHOOK_SECRET="of both ends", INTERN_PUBLISH_SECONDS="10")
    yield outsider
    outsider.leave()
