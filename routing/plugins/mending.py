"""Mending JSON apart from the process that serves: some texts keep whoever mends them for hours."""

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.sandbox import host_users
from gateway.sandbox.subprocess_worker import SubprocessWorker, WorkerEnded, WorkerTimeout

AT_ONCE: Final = 2
CPU_S: Final = 1
# With waiting for others: the answer is in nobody's books until then.
TIME_S: Final = 5.0
_MEMORY_BYTES: Final = 268_435_456
_MADE_BYTES_MAX: Final = 1_048_576
_MENDER: Final = str(Path(__file__).with_name("json_mender.py").resolve())
_free = threading.BoundedSemaphore(AT_ONCE)


def mended(texts: Sequence[str], *, wants_object: bool) -> str | None:
    """The JSON text of the first of these that was meant to be some; None where there is none, or
    it takes too much time, processor time or memory."""
    until = time.monotonic() + TIME_S
    if not _free.acquire(timeout=TIME_S):
        return None
    try:
        asked = json.dumps({"texts": texts, "wants_object": wants_object}).encode()
        return _told(asked, until).decode() or None
    except (OSError, WorkerEnded, WorkerTimeout, ValueError):
        return None
    finally:
        _free.release()


def _told(asked: bytes, until: float) -> bytes:
    limits = {"seconds": TIME_S, "cpu_seconds": CPU_S, "memory_bytes": _MEMORY_BYTES}
    user = host_users.lease()
    command = host_users.script_command([_MENDER, json.dumps(limits)], ("json_repair",), user)
    mender = SubprocessWorker(command, {"LANG": "C.UTF-8"}, user)
    try:
        mender.send(asked, until)
        return mender.receive(_MADE_BYTES_MAX, until)
    finally:
        mender.close()
