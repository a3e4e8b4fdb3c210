"""Lines of all loggers, in both formats and of several processes in one pipe."""

import json
import os
import subprocess
import sys
from pathlib import Path

from gateway.logs.setup import build_config
from gateway.logs.stderr import split_lines, write_to

_WRITE = """
import json, logging, logging.config, sys
logging.config.dictConfig(json.loads(sys.argv[1]))
from gateway.http.request_id import begin_request
log = logging.getLogger("gateway.trial")
log.info("before %s", "it", extra={"provider": "Steady"})
begin_request({"HTTP_X_REQUEST_ID": "mine-1"})
try:
    1 / 0
except ZeroDivisionError:
    log.error("within", exc_info=True)
log.debug("unseen")
logging.getLogger("celery.worker").info("unseen")
"""


def write_trial(format: str, level: str = "INFO") -> str:
    """What a process says on stderr that logs three lines."""
    config = json.dumps(build_config(format=format, level=level))
    # What begins a request asks the settings whether it is traced.
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "gateway.settings"}
    command = [sys.executable, "-c", _WRITE, config]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return ran.stderr


def test_json_is_an_object_per_line_also_of_a_traceback() -> None:
    first, second = (json.loads(line) for line in write_trial("json").splitlines())

    assert first.pop("time") <= second["time"]
    assert first.pop("process") == second["process"]
    assert first == {
        "level": "INFO",
        "logger": "gateway.trial",
        "message": "before it",
        "provider": "Steady",
    }
    assert (second["message"], second["request_id"]) == ("within", "mine-1")
    assert "ZeroDivisionError" in second["exc_info"]


def test_text_says_whose_request_it_was() -> None:
    first, second, *traceback = write_trial("text").splitlines()

    assert first.endswith("INFO gateway.trial: before it")
    assert second.endswith("ERROR gateway.trial: within [mine-1]")
    assert traceback[-1] == "ZeroDivisionError: division by zero"


def test_parts_end_with_lines_and_none_is_longer_but_a_single_line() -> None:
    lines = [b"a" * 3 + b"\n", b"b" * 4 + b"\n", b"c" * 30 + b"\n", b"d\n"]

    parts = list(split_lines(b"".join(lines), 10))

    assert parts == [lines[0] + lines[1], lines[2], lines[3]]
    assert list(split_lines(b"", 10)) == []


def test_a_file_and_a_pipe_get_all_of_it(tmp_path: Path) -> None:
    data = b"".join(b"%d\n" % number for number in range(5_000))
    with (tmp_path / "log").open("wb") as file:
        write_to(file.fileno(), data)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as end:
        write_to(writing, data)
        os.close(writing)
        assert end.read() == data
    assert (tmp_path / "log").read_bytes() == data
