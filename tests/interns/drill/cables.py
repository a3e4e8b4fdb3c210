"""A network of its own for each machine, and one cable from there to the stores.

A cable that is pulled drops what is sent, in both directions, and tells nobody.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.support import debian
from tests.support.tcp_proxy import TcpProxy


class Cable:
    """The machine's end is in a network namespace; stores are reached at the other end."""

    def __init__(self, number: int) -> None:
        # Others may try the same on this machine.
        self._name = f"gw{os.getpid()}-{number}"
        self._network = f"10.213.{number}"
        self.address = f"{self._network}.1"

    def lay(self) -> None:
        name, inside = self._name, ["-n", self._name]
        _ip("netns", "add", name)
        _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("address", "add", f"{self.address}/30", "dev", name)
        _ip("link", "set", name, "up")
        _ip(*inside, "address", "add", f"{self._network}.2/30", "dev", "eth0")
        for device in ("eth0", "lo"):
            _ip(*inside, "link", "set", device, "up")

    def take_away(self) -> None:
        _ip("link", "delete", self._name)
        _ip("netns", "delete", self._name)

    def pull(self) -> None:
        _ip("link", "set", self._name, "down")

    def plug_in(self) -> None:
        _ip("link", "set", self._name, "up")

    @property
    def prefix(self) -> list[str]:
        """What a command begins with to run on the machine's side."""
        return ["nsenter", f"--net=/run/netns/{self._name}"]


def _ip(*words: str) -> None:
    debian.run(["ip", *words])


def may_lay() -> bool:
    """Whether this user may make networks."""
    if os.geteuid() or not all(map(shutil.which, ("ip", "nsenter", "unshare"))):
        return False
    return subprocess.run(["unshare", "--net", "true"], check=False).returncode == 0


@contextmanager
def lay_cable(number: int, env: dict[str, str]) -> Iterator[tuple[Cable, dict[str, str]]]:
    """A cable, and `env` with the stores' addresses as they are from its end."""
    cable = Cable(number)
    cable.lay()
    with ExitStack() as stack:
        stack.callback(cable.take_away)

        def reach(host: str, port: int = 0) -> str:
            proxy = stack.enter_context(TcpProxy(host, port, address=cable.address))
            return f"{cable.address}:{proxy.port}"

        database, store = urlsplit(env["DATABASE_URL"]), urlsplit(env["INTERN_ARCHIVE_ENDPOINT"])
        options = dict(pair.split("=") for pair in database.query.split("&"))
        socket = Path(options["host"]) / f".s.PGSQL.{options['port']}"
        assert store.hostname
        yield (
            cable,
            env
            | {
                "DATABASE_URL": urlunsplit(
                    (
                        database.scheme,
                        f"{database.username}@{reach(str(socket))}",
                        database.path,
                        "",
                        "",
                    )
                ),
                "REDIS_URL": f"redis://{reach(env['REDIS_URL'].removeprefix('unix://'))}/0",
                "INTERN_ARCHIVE_ENDPOINT": f"http://{reach(store.hostname, store.port or 80)}",
            },
        )
