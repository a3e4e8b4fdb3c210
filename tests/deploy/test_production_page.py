"""docs/how-to/production.md from its first block to its last, in an empty Debian."""

import json
import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.support import debian
from tests.support.manage import PROJECT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
PAGE = (PROJECT / "docs" / "how-to" / "production.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"<!-- tried: (.+?) -->\n```sh\n(.*?)```", PAGE, re.DOTALL))
NAME = "gateway-test-production"
AUTHORITY = "/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt"


@pytest.fixture(scope="module")
def machine() -> Iterator[str]:
    """A Debian that systemd has booted in a container, with the checkout at /src."""
    image = debian.base_image()
    subprocess.run(["podman", "rm", "-f", NAME], capture_output=True)
    mounts = [f"{PROJECT}:/mnt:ro"]
    if certificate := os.environ.get("PIP_CERT"):
        mounts.append(f"{certificate}:/etc/ssl/of-the-host.pem:ro")
    options = [word for mount in mounts for word in ("--volume", mount)]
    boot = ["--systemd=always", *debian.LIMITS, *options, image, "/sbin/init"]
    debian.podman("run", "-d", "--name", NAME, *boot)
    enter("until systemctl is-system-running | grep -E 'running|degraded'; do sleep 1; done")
    setup = """
        git_files() { cd /mnt && tar --exclude=./.venv --exclude=./.git --exclude=./var -cf - .; }
        mkdir /src && git_files | tar -xf - -C /src
    """
    if certificate:
        setup += "printf '[global]\\ncert = /etc/ssl/of-the-host.pem\\n' > /etc/pip.conf\n"
    enter(setup)
    yield NAME
    subprocess.run(["podman", "rm", "-f", "-t", "1", NAME], capture_output=True)


def enter(script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run it as root would at a prompt in the checkout."""
    words = ["-w", "/", "-e", "GATEWAY_DOMAIN=localhost"]
    shell = ["sh", "-euc", f"[ ! -d /src ] || cd /src\n{script}"]
    command = ["podman", "--runtime", "runc", "exec", *words, NAME, *shell]
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode:
        log = enter("journalctl --no-pager -n 80", check=False).stdout
        raise AssertionError(f"{script}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}\n{log}")
    return done


@pytest.fixture(scope="module")
def outputs(machine: str) -> dict[str, str]:
    """What each block wrote, in the page's order."""
    outputs = {}
    for name, block in BLOCKS.items():
        if name == "packages":
            # They are in the image that this root is; a mirror is not always there.
            packages = block.split("-y ")[1].split()
            known = enter(f"dpkg -s {' '.join(packages)} >/dev/null", check=False)
            assert known.returncode == 0, known.stderr
            continue
        if name == "verify":
            # Where no public authority knows the name, Caddy makes one of its own.
            enter(f"until [ -s {AUTHORITY} ]; do sleep 0.2; done")
            enter(
                f"cp {AUTHORITY} /usr/local/share/ca-certificates/own.crt; update-ca-certificates"
            )
        outputs[name] = enter(block).stdout
    return outputs


def read_keys(outputs: dict[str, str]) -> dict[str, str]:
    lines = outputs["operator"].splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def test_every_block_of_the_page_works_in_its_order(outputs: dict[str, str]) -> None:
    keys = read_keys(outputs)
    enter("runuser -u gateway -- true && test -s /var/lib/gateway-backups/*.dump")
    # The link is behind the proxy as well, and begins with a page that asks before it signs in.
    assert keys["url"].startswith("https://localhost/console/link/")
    assert enter(f"curl -sf '{keys['url']}'").stdout
    bearer = f"Authorization: Bearer {keys['api_key']}"
    through = enter(f"curl -sf https://localhost/api/v1/key -H '{bearer}'")
    assert json.loads(through.stdout)["data"]["label"]
    found = json.loads(enter("gateway-manage doctor --json", check=False).stdout)
    problems = [each for each in found["findings"] if each["state"] == "problem"]
    assert problems == []
    # Both masters, on one socket.
    assert enter("ls -d /var/lib/gateway/run/web/* | wc -l").stdout.strip() == "2"


def test_systemd_reloads_restarts_and_stops_what_the_page_installed(
    outputs: dict[str, str],
) -> None:
    headers = ("X-Forwarded-Proto: https", f"Authorization: Bearer {read_keys(outputs)['api_key']}")
    options = " ".join(f"-H '{each}'" for each in headers)
    call = f"curl -s -o /dev/null -w '%{{http_code}}\\n' {options} http://127.0.0.1:8000/api/v1/key"
    calls = f"while [ ! -e /tmp/over ]; do {call}; done > /tmp/answers"
    enter(f"({calls}) </dev/null >/dev/null 2>&1 &")
    master = "systemctl show -P MainPID gateway-web@1"
    workers = f'cat "/proc/$({master})/task/$({master})/children"'
    before = enter(f"{master}; {workers}").stdout.splitlines()

    enter("systemctl reload gateway-web@1")
    enter(f"for old in {before[1]}; do while [ -d /proc/$old ]; do sleep 0.2; done; done")
    after = enter(f"{master}; {workers}").stdout.splitlines()
    assert after[0] == before[0]
    assert len(after[1].split()) == len(before[1].split())
    enter("systemctl restart gateway-web@1 && systemctl restart gateway-web@2")
    enter("touch /tmp/over")
    assert enter(master).stdout.strip() != before[0]
    assert set(enter("cat /tmp/answers").stdout.split()) == {"200"}

    everything = "systemctl list-units --plain --no-legend 'gateway*'"
    assert "gateway@beat.service" in enter(f"{everything} --state=active").stdout
    enter("systemctl stop gateway.target gateway-web.socket")
    left = enter(f"{everything} --state=active,failed").stdout.splitlines()
    # What migrates and what makes backups by the clock are no processes.
    assert [line for line in left if not line.startswith("gateway-backup.timer")] == []
    assert enter("systemctl --failed --plain --no-legend").stdout == ""
