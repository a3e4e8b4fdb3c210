"""Everything that `make run` starts, once for a module, and a browser on it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bed import Bed
from tests.support.browser import Browser, open_browser
from tests.support.running import SUPERVISOR, Run, put_database


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
