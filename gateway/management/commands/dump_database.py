"""dump_database: write a backup of the database to a file."""

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import connection
from django.db.backends.postgresql.client import DatabaseClient

from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject


class Command(JsonCommand):
    help = (
        "Write one consistent moment of the database to FILE while the gateway runs: with pg_dump "
        "in its custom format, or a copy of the SQLite file. FILE appears once it is whole. No "
        "password stands in any process's arguments."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        file: Path = options["file"]
        new = file.with_name(f".{file.name}.new")
        try:
            os.close(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
            dump = _dump_postgres if connection.vendor == "postgresql" else _dump_sqlite
            dump(new)
            new.replace(file)
        except OSError as error:
            raise Refused(f"{file}: {error.strerror or error}") from None
        finally:
            new.unlink(missing_ok=True)
        return {"file": str(file), "bytes": file.stat().st_size}, 0


def _dump_postgres(file: Path) -> None:
    psql, password = DatabaseClient.settings_to_cmd_args_env(connection.settings_dict, [])
    command = ["pg_dump", "--format=custom", f"--file={file}", *psql[1:]]
    try:
        done = subprocess.run(  # noqa: S603 - The words are the operator's own settings.
            command, env={**os.environ, **(password or {})}, capture_output=True, text=True
        )
    except FileNotFoundError:
        raise Refused("pg_dump is not installed; Debian has it in postgresql-client.") from None
    if done.returncode:
        raise Refused(f"pg_dump ended with {done.returncode}: {done.stderr.strip()}")


def _dump_sqlite(file: Path) -> None:
    """An empty file is an empty database to SQLite, which writes into it."""
    path = connection.settings_dict["NAME"]
    with closing(sqlite3.connect(path)) as source:
        try:
            source.execute("VACUUM INTO ?", [str(file)])
        except sqlite3.Error as error:
            raise Refused(f"SQLite cannot be copied: {error}") from None
