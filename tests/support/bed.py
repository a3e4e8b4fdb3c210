"""The stores a test run stands on, made once and shared by all its pytest processes.

`GATEWAY_TEST_STORES` is `postgres` (with Valkey, the default) or `sqlite` (without Redis). The
process that starts the run owns the folder and PostgreSQL; xdist's workers find both through the
environment. Each pytest process has a Valkey and a database for in-process tests of its own.
"""

import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tests.support.postgres import PostgresCluster
from tests.support.valkey import ValkeyServer

PROJECT = Path(__file__).resolve().parents[2]
_FOLDER_VARIABLE = "GATEWAY_TEST_BED"
_TEMPLATE = "gateway_template"
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


class Bed:
    """Databases, shared caches and the folder of one pytest process."""

    def __init__(self) -> None:
        self.kind = os.environ.get("GATEWAY_TEST_STORES", "postgres")
        assert self.kind in {"postgres", "sqlite"}, "GATEWAY_TEST_STORES: postgres or sqlite"
        self.is_owner = _FOLDER_VARIABLE not in os.environ
        if self.is_owner:
            # Short, because a Unix socket's path has about 100 characters at most.
            os.environ[_FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="gateway-tests-")
        self.root = Path(os.environ[_FOLDER_VARIABLE])
        self.name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self.folder = self.root / self.name
        self.folder.mkdir(exist_ok=True)
        self.root.chmod(0o755)
        self.postgres = PostgresCluster(self.root / "postgres", tcp=True)
        self.valkey = ValkeyServer(self.folder)
        self._has_template = not self.is_owner

    @property
    def is_postgres(self) -> bool:
        return self.kind == "postgres"

    @property
    def redis_url(self) -> str:
        return self.valkey.url if self.is_postgres else ""

    @property
    def database_url(self) -> str:
        """The database of in-process tests; `django_db_setup` makes it."""
        return self.url_of(f"inprocess_{self.name}")

    def url_of(self, database: str) -> str:
        if self.is_postgres:
            return self.postgres.url(database)
        return f"sqlite:///{self._file(database)}"

    def _file(self, database: str) -> Path:
        return self.root / f"{database}.sqlite3"

    def environment(self, *, home: Path, database_url: str, redis_url: str) -> dict[str, str]:
        """The gateway's environment: this process's own without the keys of real providers."""
        inherited = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
        return inherited | {
            "DJANGO_SETTINGS_MODULE": "gateway.settings",
            "GATEWAY_HOME": str(home),
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
            # A test that scripts one failure wants one attempt; tests of retries say so.
            "ROUTER_ENDPOINT_RETRIES": "0",
            # Accounts divide the fallbacks of a process, and all tests of a run share one.
            "ROUTER_RETRY_FLOOR": "100000",
            # All tests come from one address; those of the throttle set it.
            "RATE_FAILED_TOKENS": "0",
            # Nobody can know who else listens on the usual port; port 0 is any.
            "METRICS_BIND": "127.0.0.1:0",
        }

    def enter(self) -> None:
        """Point this process's Django at the stores, before its settings load."""
        # Each of some hundred servers would compile all its modules, half of the work of a start.
        if os.environ.pop(_NO_BYTECODE, None):
            os.environ["PYTHONPYCACHEPREFIX"] = str(self.root / "bytecode")
        os.environ.update(
            self.environment(
                home=self.folder / "home", database_url=self.database_url, redis_url=self.redis_url
            )
        )

    def start(self, *, shares: bool) -> None:
        """Start what must run before the first test; PostgreSQL waits for its first use, unless
        other processes are going to share it."""
        if self.is_postgres:
            self.valkey.start()
        if shares:
            self.migrated_template()

    def migrated_template(self) -> str:
        """The name of a migrated database that new ones are copies of."""
        if not self._has_template:
            url = self.url_of(_TEMPLATE)
            if self.is_postgres:
                self.postgres.start()
                self.postgres.create(_TEMPLATE)
                kept = _template_path("sql")
                if kept.exists():
                    self.postgres.restore(_TEMPLATE, kept)
                else:
                    self._migrate(url)
                    _store_template(kept, self.postgres.dump(_TEMPLATE))
            else:
                self._copy_migrated(self._file(_TEMPLATE))
            self._has_template = True
        return _TEMPLATE

    def migrated_file(self) -> Path:
        """A migrated SQLite database to copy, whatever this run stands on; made once for all its
        processes."""
        file, begun = self._file("home"), self._file("home-begun")
        with (self.root / "home.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                self._copy_migrated(begun)
                begun.rename(file)
        return file

    def _copy_migrated(self, file: Path) -> None:
        kept = _template_path("sqlite3")
        kept.parent.mkdir(parents=True, exist_ok=True)
        # Several runs may begin at a time.
        with kept.with_name("sqlite3.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if kept.exists():
                shutil.copy(kept, file)
            else:
                self._migrate(f"sqlite:///{file}")
                _store_template(kept, file.read_bytes())

    def _migrate(self, url: str) -> None:
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
            cwd=PROJECT,
            env=self.environment(home=self.folder / "home", database_url=url, redis_url=""),
            check=True,
            timeout=900,
        )

    def create(self, database: str = "", *, migrated: bool = True) -> str:
        """A new database; returns its URL."""
        name = database or f"test_{self.name}_{secrets.token_hex(4)}"
        template = self.migrated_template()
        if self.is_postgres:
            self.postgres.create(name, template=template if migrated else "template0")
        elif migrated:
            shutil.copy(self._file(template), self._file(name))
        return self.url_of(name)

    def drop(self, url: str) -> None:
        name = url.split("?")[0].rsplit("/", 1)[1]
        if self.is_postgres:
            self.postgres.drop(name)
            return
        for file in self.root.glob(f"{name}*"):
            file.unlink()

    def stop(self) -> None:
        self.valkey.stop()
        if self.is_owner:
            self.postgres.stop()
            shutil.rmtree(self.root, ignore_errors=True)


def _template_path(ending: str) -> Path:
    """Where the migrated database of exactly these migrations stands after the first run. To make
    it takes half a minute, with which every later run of a contributor's would begin."""
    apps = ("accounts", "interns", "routing")
    files = sorted(file for app in apps for file in (PROJECT / app / "migrations").glob("*.py"))
    # Partitions begin with the month of the migration.
    digest = hashlib.sha256(f"{datetime.now(UTC):%Y-%m}".encode())
    for file in (*files, PROJECT / "requirements-dev.lock", PROJECT / "gateway" / "settings.py"):
        digest.update(file.name.encode() + file.read_bytes())
    return PROJECT / "var" / "test-databases" / f"{digest.hexdigest()[:16]}.{ending}"


def _store_template(kept: Path, content: bytes) -> None:
    """Former ones go; a reader of before finds whole files only."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    for former in kept.parent.glob(f"*{kept.suffix}"):
        former.unlink(missing_ok=True)
    new = kept.with_name(f"{kept.name}.{os.getpid()}")
    new.write_bytes(content)
    new.rename(kept)
