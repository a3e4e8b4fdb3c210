"""Runs manage.py commands one after another in one process, so that Django loads only once.

Reads a JSON list of arguments per line from stdin; answers with one JSON line
`{"status", "stdout", "stderr"}`. Started by `tests.support.manage`.
"""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout

from django.core.management import execute_from_command_line
from django.db import close_old_connections


def run(arguments: list[str]) -> dict[str, object]:
    """One command as `manage.py` would run it."""
    out, err = io.StringIO(), io.StringIO()
    status: object = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            execute_from_command_line(["manage.py", *arguments])
        except SystemExit as end:
            status = end.code or 0
        finally:
            close_old_connections()
    return {"status": status, "stdout": out.getvalue(), "stderr": err.getvalue()}


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
