"""Commands inside the sandbox: a process group of their own, killed whole when the time is up."""

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

DRAIN_S = 0.5
_ENVIRONMENT = ("PATH", "LANG", "HOME", "TMPDIR")


@dataclass(frozen=True)
class Ran:
    """How a command ended. `status` is None when it was killed because its time was up."""

    status: int | None
    output: str
    was_cut: bool

    def told(self) -> str:
        """What the model reads."""
        ended = "killed: its time was up" if self.status is None else f"exit status {self.status}"
        cut = "\n[output cut]" if self.was_cut else ""
        return f"{self.output}{cut}\n[{ended}]"


async def run_command(command: str, folder: Path, *, time_s: float, output_bytes: int) -> Ran:
    """Run `command` by /bin/sh in `folder`; output and errors together, as much as is kept.

    Whatever the command leaves behind in its group is killed, also when this call is cancelled.
    """
    # A pipe of our own: the library's would have `wait` wait for all who inherited it.
    reading, writing = os.pipe()
    kept = _Kept(output_bytes)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: kept, os.fdopen(reading, "rb", 0)
    )
    try:
        try:
            process = await _begin(command, folder, writing)
        finally:
            os.close(writing)
        status = await _ended(process, time_s)
        # What the group wrote is in the pipe; whoever left the group may hold it for good.
        with suppress(TimeoutError):
            await asyncio.wait_for(kept.is_over.wait(), DRAIN_S)
    finally:
        transport.close()
    return Ran(status, kept.content.decode("utf-8", "replace"), kept.was_cut)


async def _begin(command: str, folder: Path, output: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        command,
        cwd=folder,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


async def _ended(process: asyncio.subprocess.Process, time_s: float) -> int | None:
    """The command's status, None when its time was up. Its group is gone afterwards."""
    try:
        return await asyncio.wait_for(process.wait(), time_s)
    except TimeoutError:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(process.wait())


class _Kept(asyncio.Protocol):
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
