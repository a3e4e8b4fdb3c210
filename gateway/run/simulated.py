"""Where the simulated upstream listens."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path


class Simulated:
    """Its command, and its address once it has told it in a file.

    Restarted, it takes the same port again, because the catalogue names it.
    """

    def __init__(self, file: Path, port: int) -> None:
        self._file = file
        self._port = port
        self._url = ""
        file.unlink(missing_ok=True)

    def command(self) -> Sequence[str]:
        where = ["--port", str(self._port), "--port-file", str(self._file)]
        parent = ["--parent-pid", str(os.getpid())]
        return [sys.executable, "-m", "routing.simulator", *where, *parent]

    @property
    def url(self) -> str:
        """Empty until it listens."""
        if not self._url and self._file.exists():
            self._url = json.loads(self._file.read_text(encoding="utf-8"))["url"]
            self._port = int(self._url.rpartition(":")[2])
        return self._url
