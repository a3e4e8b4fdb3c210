"""The test bed. It must be in place before Django's settings load, hence the work at import."""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path

import hypothesis
import pytest
from django.conf import settings
from pytest_django import DjangoDbBlocker

from routing.simulator.testing import SimulatedUpstream
from tests.support.bed import Bed
from tests.support.catalogue import rewritten
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.grids import diagonal
from tests.support.lanes import is_dear, is_for_the_nightly, is_left_out
from tests.support.loopback import only_loopback
from tests.support.server import GatewayServer
from tests.support.valkey import ValkeyServer

# Looking through all that is being collected, again and again, takes half of the collection's time.
gc.disable()
HERE = Path(__file__).parent
BED = Bed()
BED.enter()
only_loopback()
# pytest-django finishes Django's set-up in its own pytest_configure, once settings are loaded.
settings.DATABASES  # noqa: B018 - Reading it loads the settings.
# Each test of the admin makes its user, and a hash made to be slow takes longer than the test.
settings.PASSWORD_HASHERS = ["tests.support.hashing.QuickHasher"]
# The sidebar is the same on each page of the admin, and half of each one's work.
settings.UNFOLD = {**settings.UNFOLD, "SIDEBAR": {"show_search": True, "navigation": []}}
# All tests sign in from one address.
settings.RATE_SIGN_INS = 0
# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("nightly", deadline=None)
hypothesis.settings.register_profile("whole", deadline=None, max_examples=50)
hypothesis.settings.register_profile("change", deadline=None, max_examples=30)
# In xdist's workers the name would make pytest-django load them before this file has its say.
del os.environ["DJANGO_SETTINGS_MODULE"]


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    BED.start(shares=bool(config.getoption("numprocesses", None)))
    chosen = config.option.markexpr
    whole = "whole" if "not nightly" in chosen else "nightly"
    hypothesis.settings.load_profile("change" if "not thorough" in chosen else whole)


def pytest_unconfigure() -> None:
    BED.stop()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Importing the files of which a lane runs nothing takes longer than reading them."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    name, chosen = collection_path.relative_to(HERE), config.option.markexpr
    if is_dear(name, chosen, BED.kind):
        return True
    return is_left_out(collection_path.read_text(encoding="utf-8"), chosen) or None


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Each worker first writes the bytecode of its share: rewriting assertions takes longer than
    all else of a first collection."""
    worker = getattr(collector.config, "workerinput", None)
    if worker is None or not isinstance(collector, pytest.Session):
        return
    root = collector.config.rootpath
    files = sorted(p for a in collector.config.args for p in (root / a).rglob("test_*.py"))
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in files[number::count]:
        if not pytest_ignore_collect(path, collector.config):
            # What is wrong with a file its collection says.
            with suppress(Exception, pytest.skip.Exception):
                import_module(".".join(path.relative_to(root).with_suffix("").parts))


def _is_cell(item: pytest.Function) -> bool:
    return hasattr(item, "callspec") and item.get_closest_marker("grid") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For the nightly is what `lanes.toml` names, and of a test with the mark `grid` what is off
    the diagonal."""
    for item in items:
        if isinstance(item, pytest.Function) and is_for_the_nightly(
            item.path.relative_to(HERE), item.originalname
        ):
            item.add_marker("nightly")
    grids: dict[tuple[object, str], list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and _is_cell(item):
            grids.setdefault((item.parent, item.originalname), []).append(item)
    for cells in grids.values():
        mark = cells[0].get_closest_marker("grid")
        points = [
            {axis: repr(value) for axis, value in cell.callspec.params.items()} for cell in cells
        ]
        kept = diagonal(points, mark.args if mark else (), name=cells[0].nodeid.split("[")[0])
        for place, cell in enumerate(cells):
            if place not in kept:
                cell.add_marker("nightly")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def stores() -> Bed:
    """PostgreSQL with Valkey, or SQLite without Redis: what this run stands on."""
    return BED


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """The database of `db` tests is a copy of the migrated template."""
    from django.db import connections
    from django.db.backends.postgresql.base import DatabaseWrapper as PostgresConnection

    url = BED.create(f"inprocess_{BED.name}")
    with django_db_blocker.unblock():
        _let_django_empty_tables()
    yield
    with django_db_blocker.unblock():
        for connection in connections.all(initialized_only=True):
            connection.close()
            if isinstance(connection, PostgresConnection):
                connection.close_pool()
    BED.drop(url)


def _let_django_empty_tables() -> None:
    """Behind a test of transactions Django deletes all rows, on SQLite one by one: also those of
    audit records, which the database keeps."""
    from django.db import connection

    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER accounts_auditrecord_no_delete")
        connection.close()


@pytest.fixture(scope="session")
def simulator() -> Iterator[SimulatedUpstream]:
    """One simulated upstream for the whole run: use a persona of your own, or look by number."""
    with SimulatedUpstream("--seed", "7", "--parent-pid", str(os.getpid())) as upstream:
        yield upstream


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    """A shared cache of the test's own, to harm."""
    server = ValkeyServer(tmp_path / "v")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[StartGateway]:
    """Start gateways with settings of their own; they end with the test."""
    with StartGateway(BED, tmp_path) as starter:
        yield starter


@pytest.fixture(scope="session")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    """One running gateway with the conformance catalogue, shared by the whole run."""
    folder = tmp_path_factory.mktemp("gateway")
    catalogue = folder / "conformance.yaml"
    catalogue.write_text(rewritten(simulator.url), encoding="utf-8")
    with StartGateway(BED, folder) as starter:
        server = starter.build()
        server.manage("load_catalogue", str(catalogue))
        server.start()
        yield server


@pytest.fixture
def account(gateway: GatewayServer) -> Callable[..., SeededAccount]:
    """`account(credits_usd="1")`: a fresh account on the shared server."""
    return lambda **options: seed_account(gateway, **options)


@pytest.fixture
def orm_of(
    django_db_blocker: DjangoDbBlocker,
) -> Callable[[GatewayServer], AbstractContextManager[None]]:
    """`with orm_of(server):` Django's models read and write that server's database."""
    from tests.support.orm import pointed_at

    return lambda server: pointed_at(server.env["DATABASE_URL"], django_db_blocker)
