"""Commands inside the sandbox: a process group of their own, killed whole when the time is up or
the disk is full."""

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from interns.agent.workspace import AgentDisk

DRAIN_S = 0.5
LOOK_S = 1.0
_ENVIRONMENT = ("PATH", "LANG", "HOME", "TMPDIR")


@dataclass(frozen=True)
class CommandResult:
    """How a command ended. `status` is None when it was killed: its time was up, or it `filled` the
    disk. `was_full`: it could write nothing."""

    status: int | None
    output: str
    was_cut: bool
    was_full: bool = False
    filled: bool = False

    def full_text(self) -> str:
        """What the model reads."""
        why = "it filled the disk" if self.filled else "its time was up"
        ended = f"killed: {why}" if self.status is None else f"exit status {self.status}"
        cut = "\n[output cut]" if self.was_cut else ""
        return f"{self.output}{cut}\n[{ended}]"


async def run_command(
    command: str, folder: Path, disk: AgentDisk, *, time_s: float, output_bytes: int
) -> CommandResult:
    """Run `command` by /bin/sh in `folder`; output and errors together, as much as is kept.

    On a full disk it can remove files and writes none. Whatever the command leaves behind in its
    group is killed, also when this call is cancelled.
    """
    was_full = await disk.is_full()
    # A pipe of our own: the library's would have `wait` wait for all who inherited it.
    reading, writing = os.pipe()
    buffer = _OutputBuffer(output_bytes)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: buffer, os.fdopen(reading, "rb", 0)
    )
    try:
        try:
            process = await _start(command, folder, writing, may_write=not was_full)
        finally:
            os.close(writing)
        status, filled = await _wait_for_end(process, time_s, None if was_full else disk)
        # What the group wrote is in the pipe; whoever left the group may hold it for good.
        with suppress(TimeoutError):
            await asyncio.wait_for(buffer.is_over.wait(), DRAIN_S)
    finally:
        transport.close()
    output = buffer.content.decode("utf-8", "replace")
    return CommandResult(status, output, buffer.was_cut, was_full, filled)


async def _start(
    command: str, folder: Path, output: int, *, may_write: bool
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        command if may_write else f"ulimit -f 0\n{command}",
        cwd=folder,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


async def _wait_for_end(
    process: asyncio.subprocess.Process, time_s: float, disk: AgentDisk | None
) -> tuple[int | None, bool]:
    """The command's status, None when it was killed, and whether that was because it filled the
    disk. Its group is gone afterwards."""
    deadline = asyncio.get_running_loop().time() + time_s
    try:
        while (left_s := deadline - asyncio.get_running_loop().time()) > 0:
            with suppress(TimeoutError):
                return await asyncio.wait_for(process.wait(), min(LOOK_S, left_s)), False
            if disk is not None and await disk.is_full():
                return None, True
        return None, False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(process.wait())


class _OutputBuffer(asyncio.Protocol):
    """The first bytes of what is written to a pipe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.content = bytearray()
        self.was_cut = False
        self.is_over = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        room = self._most - len(self.content)
        self.was_cut = self.was_cut or len(data) > room
        self.content += data[: max(0, room)]

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over.set()
