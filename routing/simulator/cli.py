"""Starting and stopping the simulated upstream as a process of its own."""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from routing.simulator.faults import FAULTS
from routing.simulator.server import Simulator

PARENT_POLL_S = 1.0
CLOSED_PORT_NOTE = "For a refused connection, use a port that nothing listens on."


def main(argv: list[str] | None = None) -> int:
    """Run until told to stop. Returns the exit status: 0 done, 2 for a port that is taken."""
    arguments = build_parser().parse_args(argv)
    if arguments.faults:
        sys.stdout.write(format_faults(as_json=arguments.json))
        return 0
    return asyncio.run(run(arguments))


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="simulate_upstream",
        description="A simulated model provider on loopback, with faults by model name.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 picks a free port")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--seed", type=int, help="answer the same requests the same way")
    parser.add_argument("--port-file", type=Path, help="write the ready line to this file too")
    parser.add_argument("--parent-pid", type=int, help="stop when this process ends")
    parser.add_argument("--faults", action="store_true", help="list the faults and stop")
    parser.add_argument("--json", action="store_true", help="list the faults as JSON")
    return parser


def format_faults(*, as_json: bool) -> str:
    if as_json:
        listed = {name: fault.description for name, fault in FAULTS.items()}
        return json.dumps({"faults": listed, "note": CLOSED_PORT_NOTE}) + "\n"
    lines = [f"{name:<28}{fault.description}" for name, fault in FAULTS.items()]
    return "\n".join([*lines, CLOSED_PORT_NOTE]) + "\n"


async def run(arguments: argparse.Namespace) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, stop.set)
    simulator = Simulator(arguments.seed)
    try:
        server = await simulator.listen(arguments.host, arguments.port)
    except OSError as error:
        sys.stderr.write(f"cannot listen on {arguments.host}:{arguments.port}: {error.strerror}\n")
        return 2
    watcher = watch_parent(arguments.parent_pid, stop.set) if arguments.parent_pid else None
    announce(server.sockets[0].getsockname()[1], arguments.host, arguments.port_file)
    await stop.wait()
    server.close()
    simulator.disconnect_all()
    if watcher is not None:
        watcher.cancel()
    return 0


def announce(port: int, host: str, port_file: Path | None) -> None:
    """Say where the server listens, on stdout and in a file that is renamed into place."""
    line = json.dumps({"url": f"http://{host}:{port}", "pid": os.getpid()})
    if port_file is not None:
        draft = port_file.with_name(f".{port_file.name}.{os.getpid()}")
        draft.write_text(line + "\n")
        draft.replace(port_file)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def watch_parent(pid: int, ended: Callable[[], None]) -> asyncio.Task[None]:
    """Call `ended` once a process is gone."""
    # Asked now: once anybody knows that we are here, the process may be gone.
    is_child = os.getppid() == pid

    async def watch() -> None:
        # A zombie still answers to signal 0, so being re-parented counts as well.
        with suppress(ProcessLookupError):
            while not (is_child and os.getppid() != pid):
                os.kill(pid, 0)
                await asyncio.sleep(PARENT_POLL_S)
        ended()

    return asyncio.get_running_loop().create_task(watch())
