"""Two tenants; and everything that `make run` starts, once for a module, with a browser on it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from accounts.identity.issuers import forget_issuers
from tests.support.bed import Bed
from tests.support.browser import Browser, open_browser
from tests.support.identity_provider import Provider
from tests.support.running import SUPERVISOR, Run, put_database

if TYPE_CHECKING:
    # Django is not set up yet when this file is read.
    from tests.console.people import Team


@pytest.fixture
def ours() -> "Team":
    return _make_team("ours")


@pytest.fixture
def theirs() -> "Team":
    return _make_team("theirs")


def _make_team(name: str) -> "Team":
    from tests.console.people import make_team

    return make_team(name)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, stores: Bed) -> Iterator[Run]:
    home = tmp_path_factory.mktemp("console") / "home"
    put_database(home, stores.migrated_file())
    run = Run(home, {}, command=SUPERVISOR)
    yield run
    run.clean_up()


@pytest.fixture(scope="module")
def facts(run: Run) -> dict[str, Any]:
    # A busy machine takes its time to start everything.
    run.until(run.ready_file.exists, "readiness", within_s=120)
    return run.ready()


@pytest.fixture
def browser(facts: dict[str, Any]) -> Iterator[Browser]:
    with open_browser(facts["root_url"]) as browser:
        yield browser
        assert browser.complaints == []


@pytest.fixture
def provider(settings: Any) -> Iterator[Provider]:
    forget_issuers()
    provider = Provider(settings)
    yield provider
    provider.stop()
    forget_issuers()
