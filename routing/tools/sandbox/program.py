"""The program inside a workspace's sandbox, which runs commands and changes files.

It has only the standard library and `diffs`; nothing else of the gateway is in the sandbox. It
reads orders as frames from standard input and writes a result frame for each. No process that a
command started outlives the command.
"""

import ctypes
import json
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from routing.tools.sandbox.diffs import DiffFailed, patch_text

Order = dict[str, Any]

WORK = Path("/workspace")
LENGTH = struct.Struct(">I")
WATCH_S = 0.02
TICK_S = 0.01
NICE = 10
FILES_MAX = 50_000
LISTED_MAX = 1000
# More than anybody reads: a command that writes on is stopped.
ENDLESS_BYTES = 16 * 1_048_576
# Each may be a socket, which is memory of the kernel's.
OPEN_FILES = 128
# Runtimes take far more addresses than memory.
ADDRESSES_PER_BYTE = 4
PR_SET_DUMPABLE = 4
PROC = Path("/proc")
# What fills up: a place in memory each.
PLACES = (WORK, Path("/tmp"), Path("/dev/shm"))  # noqa: S108 - Of its own, inside.


class OrderRefused(Exception):
    """An order that cannot be carried out. The text is for the model."""


def main() -> None:
    limits = json.loads(sys.argv[1])
    bind(limits)
    # Commands run as the same user; what this program has open is not for them all the same.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    while (order := receive()) is not None:
        tell(answer(json.loads(order), limits))


def answer(order: Order, limits: Order) -> Order:
    try:
        return ORDERS[order["do"]](order, limits)
    except OrderRefused as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": error.strerror or "It failed"}


# --- Commands -------------------------------------------------------------------------------------


def run(order: Order, limits: Order) -> Order:
    """`stdout`, `stderr`, `status`, whether anything was `cut`, what `stopped` it, `took_s`."""
    process = subprocess.Popen(  # noqa: S603 - It is what this is for.
        [limits["shell"], "-c", order["command"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=WORK if WORK.is_dir() else "/",
        start_new_session=True,
        preexec_fn=_modestly,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = (
        CappedOutput(process.stdout, order["bytes"]),
        CappedOutput(process.stderr, order["bytes"]),
    )
    began = time.monotonic()
    try:
        stopped = watch(process, [out, err], began + order["time_s"], limits)
    finally:
        # Everything but this program and the sandbox's first process.
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        status = process.wait()
    out.end()
    err.end()
    return {
        "stdout": out.text,
        "stderr": err.text,
        "status": status if status >= 0 else 128 - status,
        "cut": out.is_cut or err.is_cut,
        "stopped": stopped,
        "took_s": time.monotonic() - began,
    }


def _modestly() -> None:
    os.nice(NICE)


def readable(text: str) -> str:
    """Without null characters, which not everybody takes."""
    return text.replace("\0", "\ufffd")


class CappedOutput:
    """The first bytes of a pipe."""

    def __init__(self, pipe: IO[bytes], most: int) -> None:
        self.pipe, self.most = pipe, most
        self.data, self.count, self.is_over = bytearray(), 0, False

    def fileno(self) -> int:
        return self.pipe.fileno()

    def read_some(self) -> None:
        piece = os.read(self.fileno(), 65536)
        self.data += piece[: max(0, self.most - len(self.data))]
        self.count += len(piece)
        self.is_over = not piece

    def end(self) -> None:
        """What is left in the pipe, now that nobody writes any more."""
        while not self.is_over:
            self.read_some()
        self.pipe.close()

    @property
    def is_cut(self) -> bool:
        return self.count > len(self.data)

    @property
    def text(self) -> str:
        return readable(self.data.decode("utf-8", "replace"))


def watch(
    process: subprocess.Popen[bytes], kept: list[CappedOutput], deadline: float, limits: Order
) -> str | None:
    """Read until the command has ended; what it was stopped for, if it was."""
    looked_at = 0.0
    while process.poll() is None:
        now = time.monotonic()
        if now >= deadline:
            return "time"
        if now - looked_at >= WATCH_S:
            looked_at = now
            if why := too_much(limits):
                return why
        reading = [each for each in kept if not each.is_over]
        if not reading:
            time.sleep(TICK_S)
        for each in select.select(reading, [], [], TICK_S)[0]:
            each.read_some()
        if any(each.count > ENDLESS_BYTES for each in kept):
            return "output"
    return None


def too_much(limits: Order) -> str | None:
    """What the processes have too much of, if anything."""
    running = processes()
    if len(running) > limits["processes"]:
        return "processes"
    if sum(map(mapped_bytes, running)) > limits["memory_bytes"]:
        return "memory"
    return "files" if file_count() > FILES_MAX else None


def processes() -> list[Path]:
    """All but this program and the sandbox's first process."""
    kept = (1, os.getpid())
    return [each for each in PROC.iterdir() if each.name.isdigit() and int(each.name) not in kept]


def mapped_bytes(process: Path) -> int:
    """Memory of that process, shared memory included: what several share counts for each."""
    with suppress(FileNotFoundError, ProcessLookupError):
        # The first thread may have ended before the others, and then has none.
        for thread in (process / "task").iterdir():
            lines = (thread / "status").read_text(errors="replace").splitlines()
            kinds = [line.split() for line in lines if line.startswith(("RssAnon:", "RssShmem:"))]
            if kinds:
                return sum(int(kind[1]) * 1024 for kind in kinds)
    return 0


def file_count() -> int:
    found = [os.statvfs(place) for place in PLACES]
    return sum(each.f_files - each.f_ffree for each in found)


# --- Files ----------------------------------------------------------------------------------------


def read(order: Order, limits: Order) -> Order:
    text, is_cut = text_of(resolve_path(order["path"]), order["bytes"])
    return {"text": readable(text), "cut": is_cut}


def text_of(path: Path, most: int) -> tuple[str, bool]:
    """At most `most` bytes of a file, and whether there are more."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    is_cut = len(data) > most
    try:
        # A file that is cut may end inside of a character.
        return data[:most].decode("utf-8", "ignore" if is_cut else "strict"), is_cut
    except UnicodeDecodeError:
        raise OrderRefused("The file is no text") from None


def patch(order: Order, limits: Order) -> Order:
    """Apply a diff. Done inside the sandbox, because a timeout then ends it."""
    path, most = resolve_path(order["path"]), order["bytes"]
    text, is_cut = text_of(path, most)
    if is_cut:
        raise OrderRefused("The file is too long to be changed")
    try:
        text = patch_text(text, order["diff"])
    except DiffFailed as error:
        raise OrderRefused(str(error)) from None
    if len(text) > most:
        raise OrderRefused(f"A file has at most {most} characters")
    return write({"path": order["path"], "text": text}, limits)


def write(order: Order, limits: Order) -> Order:
    path = resolve_path(order["path"])
    if order.get("new") and os.path.lexists(path):
        raise OrderRefused("The file exists already")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(order["text"])
    return {}


def remove(order: Order, limits: Order) -> Order:
    resolve_path(order["path"]).unlink()
    return {}


def list_files(order: Order, limits: Order) -> Order:
    found: list[Order] = []
    for folder, _, names in os.walk(resolve_path(order["path"])):
        for name in names:
            path = Path(folder, name)
            with suppress(OSError):
                size = path.lstat().st_size
                # Names are any bytes on disk, but only UTF-8 leaves the sandbox.
                shown = os.fsencode(os.path.relpath(path, WORK)).decode("utf-8", "replace")
                found.append({"path": shown, "bytes": size})
        if len(found) > LISTED_MAX:
            break
    found.sort(key=lambda each: str(each["path"]))
    return {"files": found[:LISTED_MAX], "cut": len(found) > LISTED_MAX}


def resolve_path(path: str) -> Path:
    """It may be any path, for the walls are what keeps it in; it begins at the workspace."""
    if "\0" in path:
        raise OrderRefused("No path has a null character")
    return Path(os.path.normpath(WORK / path))


ORDERS: dict[str, Callable[[Order, Order], Order]] = {
    "run": run,
    "read": read,
    "patch": patch,
    "write": write,
    "remove": remove,
    "list": list_files,
}

# --- Frames and limits ----------------------------------------------------------------------------


def receive() -> bytes | None:
    head = read_exactly(LENGTH.size)
    return None if head is None else read_exactly(LENGTH.unpack(head)[0])


def read_exactly(length: int) -> bytes | None:
    data = bytearray()
    while len(data) < length:
        piece = os.read(0, min(65536, length - len(data)))
        if not piece:
            return None
        data += piece
    return bytes(data)


def tell(value: Order) -> None:
    data = json.dumps(value).encode()
    rest = memoryview(LENGTH.pack(len(data)) + data)
    while rest:
        rest = rest[os.write(1, rest) :]


def bind(limits: Order) -> None:
    """Of each process; `too_much` looks at what they have together."""
    wanted = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_DATA, limits["memory_bytes"]),
        # What is shared is no data.
        (resource.RLIMIT_AS, ADDRESSES_PER_BYTE * limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["disk_bytes"]),
    ]
    for kind, most in wanted:
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (bound, bound))


if __name__ == "__main__":
    main()
