"""W4: what is committed and never told of is found; what nobody can be told of is as before."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from interns import leases
from interns.models import Intern, LeaseKind
from tests.faults.test_w1_workers_die import LEASE_S, SETTLES_S, SHORT
from tests.support import processes
from tests.support.bed import Bed
from tests.support.gateways import StartGateway
from tests.support.orm import database_name
from tests.support.promptness import in_time
from tests.support.ranch import Ranch, ranch_of, running_ranch
from tests.support.valkey import ValkeyServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.thorough]


@pytest.fixture(scope="module")
def one_ranch(stores: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranch]:
    with running_ranch(stores, tmp_path_factory.mktemp("w4"), **SHORT) as ranch:
        yield ranch


@pytest.fixture
def ranch(one_ranch: Ranch) -> Iterator[Ranch]:
    yield one_ranch
    one_ranch.clear()


def test_a_commit_that_nobody_was_told_of_is_found(
    ranch: Ranch, orm_of: Any, settings: Any
) -> None:
    settings.INTERN_LEASE_SECONDS = LEASE_S
    intern_id = ranch.new("untold")
    with orm_of(ranch.server):
        row = Intern.objects.select_related("workspace").get(pk=intern_id)
        # The process died right here, before it published.
        taken = leases.take(row, LeaseKind.PROVISION, by="test", now=datetime.now(UTC))
        assert taken is not None

    assert ranch.eventually(intern_id, "running", within_s=SETTLES_S) == "running"


@pytest.mark.parametrize("how", ["gone", "frozen"])
def test_a_queue_that_is_gone_or_frozen_leaves_all_as_it_was(ranch: Ranch, how: str) -> None:
    hints = ranch.hints
    fresh, running = ranch.new("fresh"), ranch.running("running")
    before = {each: ranch.ok("GET", f"/interns/{each}") for each in (fresh, running)}
    (hints.stop if how == "gone" else hints.pause)()

    asked = [("POST", f"/interns/{fresh}/provision"), ("POST", f"/interns/{running}/suspend")]
    for method, path in [*asked, ("DELETE", f"/interns/{running}")]:
        began = time.monotonic()
        response = ranch.call(method, path)
        in_time(time.monotonic() - began, 3.0)
        assert response.status_code == 502, response.text
        said = response.json()["error"]["metadata"]
        assert said == {"reason": "upstream_unavailable", "retryable": True}
    after = {each: ranch.ok("GET", f"/interns/{each}") for each in (fresh, running)}
    for each, shown in after.items():
        assert {**shown, "updated_at": ""} == {**before[each], "updated_at": ""}

    (hints.start if how == "gone" else hints.resume)()
    assert ranch.retried("POST", f"/interns/{fresh}/provision") == 202
    assert ranch.eventually(fresh, "running", within_s=SETTLES_S) == "running"
    assert ranch.status(running) == "running"


def _is_over(direct: "psycopg.Connection[Any]", intern_id: str) -> bool:
    """Whether nobody holds the intern any more, by the database's own clock."""
    sql = "SELECT lease_expires_at < now() FROM interns_intern WHERE id = %s"
    row = direct.execute(sql, [intern_id]).fetchone()
    return row is not None and row[0] is True


def test_a_database_that_goes_in_the_middle_of_a_job(
    stores: Bed, tmp_path: Path, valkey: ValkeyServer
) -> None:
    """It converges once the database is back."""
    from tests.support.tcp_proxy import TcpProxy

    with (
        StartGateway(stores, tmp_path) as starter,
        TcpProxy("127.0.0.1", stores.postgres.port) as proxy,
    ):
        ranch = ranch_of(starter, tmp_path / "r", redis_url=valkey.url, **SHORT)
        ranch.start_behind(proxy.port)
        intern_id = ranch.new("patient")
        ranch.script.fail("start", {"delay_s": 0.5})
        ranch.ok("POST", f"/interns/{intern_id}/provision", status=202)
        ranch.server.wait_until(lambda: bool(ranch.script.calls("start")))
        proxy.refuse()
        proxy.cut()
        # A shorter lease than others have would be over again before a busy machine's worker takes
        # up the second attempt.
        past_the_proxy = stores.postgres.url(database_name(ranch.server.env["DATABASE_URL"]))
        with psycopg.connect(past_the_proxy, autocommit=True) as direct:
            processes.eventually(
                lambda: _is_over(direct, intern_id),
                within_s=SETTLES_S,
                what="the lease's end",
                log=None,
            )
        proxy.thaw()

        status = ranch.eventually(intern_id, "running", "failed", within_s=SETTLES_S)
        assert status == "running", ranch.ok("GET", f"/interns/{intern_id}")
        assert list(ranch.script.runtimes()) == [intern_id]
        ranch.stop()
