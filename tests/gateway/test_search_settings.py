"""Nothing starts with half a search engine."""

import json
import os
import subprocess
import sys
from pathlib import Path

from gateway.home import PROJECT

CASES: list[tuple[dict[str, str], str]] = [
    ({}, ""),
    ({"ROUTER_SEARCH_ENGINE": "searxng"}, "ROUTER_SEARCH_URL"),
    ({"ROUTER_SEARCH_ENGINE": "searxng", "ROUTER_SEARCH_URL": "http://10.0.0.1:8888/"}, ""),
    ({"ROUTER_SEARCH_ENGINE": "searxng", "ROUTER_SEARCH_URL": "ftp://a"}, "ROUTER_SEARCH_URL"),
    ({"ROUTER_SEARCH_ENGINE": "brave"}, "ROUTER_SEARCH_KEY"),
    ({"ROUTER_SEARCH_ENGINE": "tavily", "ROUTER_SEARCH_KEY": "canary-key"}, ""),
    ({"ROUTER_SEARCH_ENGINE": "altavista"}, "ROUTER_SEARCH_ENGINE"),
    ({"ROUTER_FETCH_PRIVATE_HOSTS": "http://a"}, "ROUTER_FETCH_PRIVATE_HOSTS"),
    ({"ROUTER_FETCH_BYTES": "5"}, "ROUTER_FETCH_BYTES"),
]
SCRIPT = """
import importlib, json, os, sys
import gateway.settings
from gateway.env import SettingError
found, before = [], dict(os.environ)
for given in json.load(sys.stdin):
    os.environ.clear()
    os.environ.update(before | given)
    try:
        importlib.reload(gateway.settings)
        found.append("")
    except SettingError as error:
        found.append(str(error))
print(json.dumps(found))
"""


def test_what_an_engine_needs_is_asked_for_at_the_start(tmp_path: Path) -> None:
    clean = {name: each for name, each in os.environ.items() if not name.startswith("ROUTER_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=PROJECT,
        env={**clean, "GATEWAY_HOME": str(tmp_path)},
        input=json.dumps([given for given, _ in CASES]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [problem.partition(":")[0] for problem in told] == [name for _, name in CASES]
    assert "canary-key" not in done.stdout
