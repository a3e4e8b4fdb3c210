"""deploy/compose.yaml as it is, with images of Debian's packages in place of a registry's."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.support import debian
from tests.support.manage import PROJECT
from tests.support.postgres import free_port
from tests.support.processes import eventually

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
FILE = PROJECT / "deploy" / "compose.yaml"
NAME = "gateway-test"
STORES = "localhost/gateway-test-stores:1"
# PostgreSQL, Valkey and Caddy, each begun by the file's own command or health check.
STORES_FILE = """
ARG BASE
FROM ${BASE}
COPY postgres-alone /usr/local/bin/
RUN ln -s /usr/bin/redis-server /usr/local/bin/valkey-server \\
 && ln -s /usr/bin/redis-cli /usr/local/bin/valkey-cli && mkdir -p /var/lib/postgresql/data
CMD ["postgres-alone"]
"""
# Engines ask for more of both than a machine may give.
ENGINE = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
"""
START_S = 300


class Compose:
    """The services, made by podman-compose.

    They are started by hand: Debian's Podman measures no health without systemd, and does not
    start what depends on one that has ended.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "containers.conf").write_text(ENGINE)
        names = ("GATEWAY_IMAGE", "POSTGRES_IMAGE", "VALKEY_IMAGE", "CADDY_IMAGE")
        images = dict.fromkeys(names, STORES) | {"GATEWAY_IMAGE": debian.gateway_image()}
        ports = {"HTTP_PORT": str(free_port()), "HTTPS_PORT": str(free_port())}
        self._env = {**os.environ, **images, **ports, "GATEWAY_DOMAIN": "localhost"}
        self._env |= {
            "SECRETS": str(folder / "secrets"),
            "CONTAINERS_CONF": str(folder / "containers.conf"),
        }
        self.services: list[str] = list(yaml.safe_load(FILE.read_text())["services"])

    def write_secrets(self) -> None:
        (self.folder / "secrets").mkdir()
        names = ("secret_key", "vault_master_key", "user_hash_secret")
        values = {name: secrets.token_hex(48) for name in names} | {
            "postgres_password": "pw",
            "database_url": "postgresql://gateway:pw@postgres/gateway",
            "redis_url": "redis://valkey:6379/0",
        }
        for name, value in values.items():
            file = self.folder / "secrets" / name
            file.write_text(value)
            # The image's user reads it.
            file.chmod(0o644)

    def run(self, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(list(words), env=self._env, capture_output=True, text=True)
        assert not check or done.returncode == 0, f"{words}\n{done.stdout[-2000:]}\n{done.stderr}"
        return done

    def compose(self, *words: str, check: bool = True) -> None:
        program = self.folder / "venv" / "bin" / "podman-compose"
        self.run(program, "-p", NAME, "-f", FILE, *words, check=check)

    def start(self, *services: str) -> None:
        self.run("podman", "start", *(f"{NAME}_{each}_1" for each in services))

    def is_well(self, service: str) -> bool:
        """By its own health check."""
        words = ("podman", "healthcheck", "run", f"{NAME}_{service}_1")
        return self.run(*words, check=False).returncode == 0

    def await_health(self, service: str) -> None:
        eventually(lambda: self.is_well(service), within_s=START_S, what=service, log=None)

    def inside(self, service: str, *words: str, check: bool = True) -> str:
        return self.run("podman", "exec", f"{NAME}_{service}_1", *words, check=check).stdout

    def ask(self, url: str, *words: str) -> tuple[str, str]:
        """Status and body."""
        command = ("curl", "-sk", "--max-time", "30", "-w", "\n%{http_code}", *words, url)
        body, _, status = self.inside("proxy", *command, check=False).rpartition("\n")
        return status, body


@pytest.fixture
def compose(tmp_path: Path) -> Iterator[Compose]:
    base = debian.base_image()
    debian.need(
        **{
            "dnsmasq": "dnsmasq-base",
            "/usr/lib/cni/dnsname": "golang-github-containernetworking-plugin-dnsname",
        }
    )
    compose = Compose(tmp_path)
    compose.write_secrets()
    venv, stores = tmp_path / "venv", tmp_path / "stores"
    compose.run(sys.executable, "-m", "venv", venv)
    install = (venv / "bin" / "pip", "install", "--quiet", "podman-compose==1.6.0")
    if compose.run(*install, check=False).returncode:
        pytest.skip("podman-compose cannot be installed")
    stores.mkdir()
    (stores / "Containerfile").write_text(STORES_FILE)
    shutil.copy(PROJECT / "tests" / "deploy" / "postgres-alone", stores)
    options = ("--isolation", "chroot", "--format", "docker", "--build-arg", f"BASE={base}")
    compose.run("buildah", "build", "--quiet", *options, "-t", STORES, stores)
    compose.compose("down", "-v", check=False)
    try:
        compose.compose("up", "--no-start")
        yield compose
    finally:
        compose.compose("down", "-v", "-t", "5", check=False)


def test_the_whole_of_it_answers_behind_tls_and_goes_on_without_one_web(compose: Compose) -> None:
    compose.start("postgres", "valkey")
    for each in ("postgres", "valkey"):
        compose.await_health(each)
    compose.start("release")
    ended = compose.run("podman", "wait", f"{NAME}_release_1").stdout.strip()
    assert ended == "0", compose.run("podman", "logs", f"{NAME}_release_1").stderr
    compose.start(*compose.services)
    for each in ("web-1", "web-2"):
        compose.await_health(each)

    def is_whole() -> bool:
        status, body = compose.ask("https://localhost/readyz")
        checks = json.loads(body)["checks"] if status == "200" else {}
        return bool(checks and checks["hints"]["ok"] and all(checks["worker"]["queues"].values()))

    eventually(is_whole, within_s=START_S, what="hints and a worker of each queue", log=None)
    words = ("manage", "seed_keys", "--account", "acme", "--workspace", "main", "--json")
    key = json.loads(compose.inside("web-1", "routing-gateway", *words))["api_key"]
    bearer = ("-H", f"Authorization: Bearer {key}")
    assert compose.ask("https://localhost/api/v1/key", *bearer)[0] == "200"
    assert compose.ask("http://localhost/api/v1/key", *bearer)[0] == "403"

    statuses = []
    with ThreadPoolExecutor(1) as pool:
        stop = pool.submit(compose.run, "podman", "stop", "--time", "15", f"{NAME}_web-1_1")
        while not stop.done():
            statuses.append(compose.ask("https://localhost/api/v1/key", *bearer)[0])
    stop.result()
    # Until its next health check the proxy may still choose it.
    statuses += [compose.ask("https://localhost/api/v1/key", *bearer)[0] for _ in range(4)]
    assert set(statuses) == {"200"}, statuses
