"""Two tenants; and everything that `make run` starts, once for a worker, with a browser on it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
def team() -> "Team":
    return _make_team("acme")


@pytest.fixture
def ours() -> "Team":
    return _make_team("ours")


@pytest.fixture
def theirs() -> "Team":
    return _make_team("theirs")


def _make_team(name: str) -> "Team":
    from tests.console.people import make_team

    return make_team(name)


@dataclass
class Installation:
    """Everything that `make run` starts, and whether a test has used it."""

    run: Run
    is_used: bool = False

    def read_facts(self) -> dict[str, Any]:
        # A busy machine takes its time to start everything.
        self.run.wait_until(self.run.ready_file.exists, "readiness", within_s=120)
        return self.run.ready()


@pytest.fixture(scope="session")
def install(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed
) -> Iterator[Callable[[], Installation]]:
    """Start one more installation."""
    runs = []

    def start() -> Installation:
        home = tmp_path_factory.mktemp("console") / "home"
        put_database(home, stores.migrated_file())
        runs.append(Run(home, {}, command=SUPERVISOR))
        return Installation(runs[-1])

    yield start
    for run in runs:
        run.clean_up()


@pytest.fixture(scope="session")
def installation(install: Callable[[], Installation]) -> Installation:
    return install()


@pytest.fixture
def facts(installation: Installation) -> dict[str, Any]:
    """Of the installation that all tests of a worker share."""
    installation.is_used = True
    return installation.read_facts()


@pytest.fixture
def new_facts(installation: Installation, install: Callable[[], Installation]) -> dict[str, Any]:
    """Of an installation that nobody has used."""
    chosen = install() if installation.is_used else installation
    chosen.is_used = True
    return chosen.read_facts()


@pytest.fixture(scope="module")
def shared_browser(installation: Installation) -> Iterator[Browser]:
    """Not for longer: Playwright's event loop would keep Django from the database."""
    with open_browser(installation.read_facts()["root_url"]) as browser:
        yield browser


@pytest.fixture
def browser(shared_browser: Browser) -> Iterator[Browser]:
    shared_browser.complaints.clear()
    yield shared_browser
    shared_browser.close_tabs()
    assert shared_browser.complaints == []


@pytest.fixture
def provider(settings: Any) -> Iterator[Provider]:
    forget_issuers()
    provider = Provider(settings)
    yield provider
    provider.stop()
    forget_issuers()
