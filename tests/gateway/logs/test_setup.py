"""Lines of all loggers, in both formats."""

import json
import os
import subprocess
import sys

from gateway.logs.setup import build_config

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
