"""A pgbouncer in transaction mode in front of a test's own PostgreSQL."""

import shutil
import subprocess
from pathlib import Path

import psycopg

from tests.support import processes
from tests.support.postgres import USER, PostgresCluster, as_someone_else, free_port


def is_installed() -> bool:
    return shutil.which("pgbouncer") is not None


class PgBouncer:
    """`connections` to PostgreSQL for all that come to it, each for one transaction."""

    def __init__(self, folder: Path, postgres: PostgresCluster, *, connections: int) -> None:
        self.port = free_port()
        self._folder, self._postgres, self._connections = folder, postgres, connections
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        folder, postgres = self._folder, self._postgres
        folder.mkdir(exist_ok=True)
        # It refuses to be root, as PostgreSQL does.
        folder.chmod(0o777)
        config = folder / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n* = host={postgres.folder} port={postgres.port} user={USER}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\n"
            f"unix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
            f"max_client_conn = 200\ndefault_pool_size = {self._connections}\n"
            # What a gateway is to hear at once, and no later than it gives up by itself.
            f"server_login_retry = 1\nquery_wait_timeout = 2\n"
        )
        log = folder / "pgbouncer.log"
        program = shutil.which("pgbouncer")
        assert program is not None
        self._process = processes.spawn([*as_someone_else(), program, config], log=log)
        processes.eventually(self._answers, within_s=10, what="pgbouncer's start", log=log)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        if self._process is not None:
            processes.kill(self._process)
            self._process = None
