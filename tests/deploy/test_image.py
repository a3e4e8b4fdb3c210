"""The image: built from a root of Debian's, run as nobody with nothing writable but its home."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.support import debian
from tests.support.processes import eventually

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
CLOSED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp")
NAME = "gateway-test-web"
# What a build may leave behind only in the first stage.
COMPILERS = ("gcc", "cc", "c++", "pip", "make")


@pytest.fixture
def image() -> str:
    return debian.gateway_image()


@pytest.fixture
def web(image: str) -> Iterator[str]:
    """A container of the web process on SQLite, with settings for development."""
    options = ["--name", NAME, "--volume", "/var/lib/gateway", "-e", "GATEWAY_ENV=development"]
    subprocess.run(["podman", "rm", "-f", NAME], capture_output=True)
    debian.podman("run", "-d", *debian.LIMITS, *CLOSED, *options, image, "web")
    yield NAME
    subprocess.run(["podman", "rm", "-f", NAME], capture_output=True)


def test_the_image_is_nobodys_and_compiles_nothing(image: str) -> None:
    config = json.loads(debian.podman("image", "inspect", image))[0]["Config"]
    assert (config["User"], config["Cmd"]) == ("10001:10001", ["web"])

    find = "; ".join(f"! command -v {name}" for name in COMPILERS)
    shell = ["--entrypoint", "/bin/sh", *CLOSED]
    said = debian.container(image, "-ec", f"{find}; id -u; ! touch /opt/x", options=shell)
    assert said == "10001"


def test_one_image_runs_each_process_and_answers(web: str) -> None:
    def inside(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["podman", "--runtime", "runc", "exec", web, "routing-gateway", *words]
        return subprocess.run(command, capture_output=True, text=True)

    eventually(lambda: inside("health").returncode == 0, within_s=120, what="health", log=None)
    assert inside("manage", "migrate", "--noinput").returncode == 0
    made = inside("manage", "seed_keys", "--account", "acme", "--workspace", "main", "--json")
    assert json.loads(made.stdout)["api_key"].startswith("sk-")
    assert inside("health", "http://127.0.0.1:1").returncode == 1

    # SIGTERM reaches gunicorn itself, which has then ended within its grace.
    debian.podman("stop", "--time", "15", web)
    state = json.loads(debian.podman("inspect", web))[0]["State"]
    assert state["ExitCode"] == 0
