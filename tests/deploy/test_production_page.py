"""docs/how-to/production.md from its first block to its last, in an empty Debian."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import debian
from tests.support.manage import PROJECT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
PAGE = (PROJECT / "docs" / "how-to" / "production.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"<!-- tried: (.+?) -->\n```sh\n(.*?)```", PAGE, re.DOTALL))
NAME = "gateway-test-production"
# In place of systemd, which does not run here: what it starts with the machine.
STORES = "pg_ctlcluster 15 main start && redis-server --daemonize yes"


@pytest.fixture
def machine() -> Iterator[str]:
    """A running container of Debian with the checkout at /src, and `systemctl` stood in for."""
    image = debian.base_image()
    subprocess.run(["podman", "rm", "-f", NAME], capture_output=True)
    standing_in = PROJECT / "tests" / "deploy" / "systemctl.py"
    mounts = [f"{PROJECT}:/mnt:ro", f"{standing_in}:/usr/local/bin/systemctl.py:ro"]
    if certificate := os.environ.get("PIP_CERT"):
        mounts.append(f"{certificate}:/etc/ssl/of-the-host.pem:ro")
    options = [word for mount in mounts for word in ("--volume", mount)]
    debian.podman("run", "-d", "--name", NAME, *debian.LIMITS, *options, image, "sleep", "3600")
    setup = """
        git_files() { cd /mnt && tar --exclude=./.venv --exclude=./.git --exclude=./var -cf - .; }
        mkdir /src && git_files | tar -xf - -C /src
        { echo '#!/bin/sh'; echo 'exec python3 /usr/local/bin/systemctl.py "$@"'; } > systemctl
        install systemctl /usr/local/bin/
    """
    if certificate:
        setup += "printf '[global]\\ncert = /etc/ssl/of-the-host.pem\\n' > /etc/pip.conf\n"
    enter(setup)
    yield NAME
    subprocess.run(["podman", "rm", "-f", "-t", "1", NAME], capture_output=True)


def enter(script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run it as root would at a prompt in the checkout."""
    words = [
        "-w",
        "/",
        "-e",
        "GATEWAY_DOMAIN=localhost",
    ]
    shell = ["sh", "-euc", f"[ ! -d /src ] || cd /src\n{script}"]
    command = ["podman", "--runtime", "runc", "exec", *words, NAME, *shell]
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode:
        log = enter("tail -n 50 /var/log/units.log", check=False).stdout
        raise AssertionError(f"{script}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}\n{log}")
    return done


def test_every_block_of_the_page_works_in_its_order(machine: str, tmp_path: Path) -> None:
    said = {}
    for name, block in BLOCKS.items():
        if name == "packages":
            # They are in the image that this root is; a mirror is not always there.
            packages = block.split("-y ")[1].split()
            known = enter(f"dpkg -s {' '.join(packages)} >/dev/null", check=False)
            assert known.returncode == 0, known.stderr
            continue
        if name == "database":
            enter(STORES)
        said[name] = enter(block, check=name != "verify")

    keys = dict(
        line.split(": ", 1) for line in said["operator"].stdout.splitlines() if ": " in line
    )
    enter("runuser -u gateway -- true && test -s /var/lib/gateway-backups/*.dump")
    # The link is behind the proxy as well, and begins with a page that asks before it signs in.
    assert keys["url"].startswith("https://localhost/console/link/")
    assert enter(f"curl -skf '{keys['url']}'").stdout
    bearer = f"Authorization: Bearer {keys['api_key']}"
    through = enter(f"curl -skf https://localhost/api/v1/key -H '{bearer}'")
    assert json.loads(through.stdout)["data"]["label"]
    found = json.loads(enter("gateway-manage doctor --json", check=False).stdout)
    problems = [each for each in found["findings"] if each["state"] == "problem"]
    # The proxy's own authority, which it makes where no public one knows the name, is trusted here.
    assert problems == []
    # Both masters, on one socket.
    assert enter("ls -d /var/lib/gateway/run/web/* | wc -l").stdout.strip() == "2"
