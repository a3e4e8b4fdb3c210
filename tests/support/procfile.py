"""Lines of the Procfile, begun for a server as they stand there."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import processes
from tests.support.manage import PROJECT
from tests.support.server import GatewayServer


@contextmanager
def running_line(server: GatewayServer, name: str) -> Iterator["subprocess.Popen[bytes]"]:
    """The process of that line, such as `beat`, which logs to a file beside the server's; SIGKILL
    to all of it at the end."""
    lines = dict(line.split(": ", 1) for line in (PROJECT / "Procfile").read_text().splitlines())
    command = lines[name].replace("${GATEWAY_HOME:-var}", server.env["GATEWAY_HOME"]).split()
    process = processes.spawn(
        [Path(sys.executable).parent / command[0], *command[1:]],
        log=server.folder / f"{name}.log",
        env=server.env,
        cwd=PROJECT,
    )
    try:
        yield process
    finally:
        processes.kill(process)
