"""Repairs broken JSON in a process of its own: `python -I json_mender.py LIMITS`.

Reads one frame from standard input (`texts` to try, `wants_object`) and writes one frame: the JSON
of the first text that can be repaired, or nothing. Exceeding a limit ends the process. It must not
import anything of the project.
"""

import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Sequence
from typing import Any

LENGTH = struct.Struct(">I")
NICE = 10


def main() -> None:
    bind(json.loads(sys.argv[1]))
    (length,) = LENGTH.unpack(sys.stdin.buffer.read(LENGTH.size))
    asked = json.loads(sys.stdin.buffer.read(length))
    told = (mend(asked["texts"], wants_object=asked["wants_object"]) or "").encode()
    sys.stdout.buffer.write(LENGTH.pack(len(told)) + told)
    sys.stdout.buffer.flush()


def mend(texts: Sequence[str], *, wants_object: bool) -> str | None:
    """The JSON text of the first that was meant to be some."""
    wanted = (dict,) if wants_object else (dict, list)
    for text in texts:
        value = repair(text)
        # Of mere prose in brackets nothing is left.
        if value and isinstance(value, wanted) and (made := write_json(value)) is not None:
            return made
    return None


def repair(text: str) -> Any:
    import json_repair

    try:
        return json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None


def write_json(value: object) -> str | None:
    """The value as JSON; None if JSON cannot express it."""
    try:
        made = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        made.encode()
    except (ValueError, RecursionError):
        return None
    return made


def bind(limits: dict[str, Any]) -> None:
    """Set the limits, so that the process ends even if its parent is gone."""
    os.nice(NICE)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limits["seconds"] + 1)
    wanted = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CPU, limits["cpu_seconds"]),
    ]
    if sys.platform == "linux":
        wanted.append((resource.RLIMIT_DATA, limits["memory_bytes"]))
    for kind, most in wanted:
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (bound, bound))


if __name__ == "__main__":
    main()
