"""D3: start-up with Redis absent, with PostgreSQL absent, with a setting nobody understands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from accounts.keystring import new_key
from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import HELLO
from tests.faults.bench import as_yaml, endpoint, model, personas
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.manage import PROJECT
from tests.support.server import as_json

pytestmark = pytest.mark.thorough

GUNICORN = [str(Path(sys.executable).parent / "gunicorn"), "-c", "gateway/gunicorn.conf.py"]
ODD = {
    "PORT": "eighty",
    "WEB_CONCURRENCY": "0",
    "ROUTER_IDLE_TIMEOUT": "soon",
    "ROUTER_TOTAL_TIMEOUT": "-1",
    "ROUTER_KEEPALIVE_SECONDS": "nan",
    "ROUTER_CONNECT_TIMEOUT": "inf",
    "ROUTER_MAX_BODY_BYTES": "32MiB",
    "ROUTER_RETRY_BUDGET": "20%",
    "BILLING_ENFORCED": "perhaps",
    "LOG_LEVEL": "LOUD",
    "GATEWAY_ENV": "staging",
    "DATABASE_URL": "mysql://localhost/x",
    "REDIS_URL": "memcached://localhost",
    "PUBLIC_URL": "gateway.example",
    "ROUTER_UPSTREAM_PROXY": "https://proxy.example:3128",
    "API_KEY_PREFIX": "no hyphen",
    "ROUTER_BODY_TIMEOUT": "0",
}


def environment(stores: Bed, home: Path, **env: str) -> dict[str, str]:
    base = stores.environment(home=home, database_url=f"sqlite:///{home}/db.sqlite3", redis_url="")
    return {**base, "HOST": "127.0.0.1", "PORT": "0", **env}


@pytest.mark.both
@pytest.mark.parametrize(("name", "value"), ODD.items())
def test_an_odd_setting_ends_the_start_and_is_named(
    stores: Bed, tmp_path: Path, name: str, value: str
) -> None:
    done = subprocess.run(
        GUNICORN,
        cwd=PROJECT,
        env=environment(stores, tmp_path, **{name: value}),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode != 0
    assert re.search(rf"\b{name}: ", done.stderr), done.stderr[-500:]


@pytest.mark.both
def test_without_redis_inference_goes_on(
    start_gateway: StartGateway, simulator: SimulatedUpstream, tmp_path: Path
) -> None:
    simulator.clear()
    server = start_gateway.build(redis_url="redis://127.0.0.1:9/0")
    catalogue = tmp_path / "catalogue.yaml"
    models = [model("plain/first", endpoint("first"))]
    catalogue.write_text(as_yaml(personas(simulator), models), encoding="utf-8")
    server.manage("load_catalogue", str(catalogue))
    server.start()

    ready = server.get("/readyz")
    answer = server.chat(key=seed_account(server).api_key, model="plain/first", messages=HELLO)

    assert ready.status_code == 200
    assert as_json(ready)["checks"]["hints"]["ok"] is False
    assert answer.status_code == 200
    assert as_json(answer)["usage"]["cost"] > 0


def test_without_its_database_it_waits_unready_and_serves_once_it_is_there(
    start_gateway: StartGateway, stores: Bed
) -> None:
    template = stores.migrated_template()
    absent = f"absent_{stores.name}"
    server = start_gateway.build(database_url=stores.url_of(absent))
    server.start(until_ready=False)

    unready = server.get("/readyz")
    refused = server.chat(key=made_up_key(), model="x", messages=HELLO)

    assert unready.status_code == 503
    assert as_json(unready)["checks"]["database"]["ok"] is False
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) >= 1
    assert as_json(refused)["error"]["metadata"]["error_type"] == "provider_overloaded"
    assert server.get("/healthz").status_code == 200

    stores.postgres.create(absent, template=template)
    # The pool of connections tries again at growing intervals.
    server.wait_until(lambda: server.get("/readyz").status_code == 200, within_s=40)

    assert server.chat(key=made_up_key(), model="x", messages=HELLO).status_code == 401
    server.kill()
    stores.drop(stores.url_of(absent))


def made_up_key() -> str:
    """A key that nobody has but whose checksum holds, so that it is looked up."""
    return new_key("sk-rt-v1-")
