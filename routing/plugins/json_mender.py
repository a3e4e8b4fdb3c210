"""Repairs JSON, or holds it to a schema, in a process of its own:
`python -I json_mender.py LIMITS`.

Reads one frame from standard input and writes one. Of `texts` to try, and `wants_object`, that is
the JSON of the first that can be repaired, or nothing. Of a `value` and a `schema` it is what does
not fit, or nothing. Exceeding a limit ends the process, and so does a schema that is none. It must
not import anything of the project.
"""

import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

LENGTH = struct.Struct(">I")
NICE = 10
PROBLEM_CHARS_MAX = 500


def main() -> None:
    bind(json.loads(sys.argv[1]))
    (length,) = LENGTH.unpack(sys.stdin.buffer.read(LENGTH.size))
    asked = json.loads(sys.stdin.buffer.read(length))
    if "schema" in asked:
        reply = find_problem(asked["value"], asked["schema"]).encode("utf-8", "replace")
    else:
        reply = (mend(asked["texts"], wants_object=asked["wants_object"]) or "").encode()
    sys.stdout.buffer.write(LENGTH.pack(len(reply)) + reply)
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


def find_problem(value: object, schema: dict[str, Any]) -> str:
    """The plainest thing that is wrong with the value, and where; empty where nothing is. Other
    documents that the schema names are never fetched."""
    from referencing import Registry

    # It comes without types.
    validators: Any = import_module("jsonschema.validators")
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    kind.check_schema(schema)
    checks = kind(schema, registry=Registry()).iter_errors(value)
    error = validators.exceptions.best_match(checks)
    return "" if error is None else f"{error.json_path}: {error.message}"[:PROBLEM_CHARS_MAX]


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
