"""Web processes hold what serves requests, and the rest is there for whoever asks."""

import json
import subprocess
import sys

from tests.support.manage import PROJECT

PROGRAM = """
import json, sys
import gateway.wsgi
from django.urls import get_resolver
get_resolver().url_patterns
from importlib import import_module
import_module("routing.process")
search = import_module("routing.tools.web.search")
search.load_search_client()
held = [name for name in sys.argv[1:] if name in sys.modules]
from django.test import override_settings
with override_settings(ROUTER_SEARCH_ENGINE="brave"):
    search.load_search_client()
searches = "requests" in sys.modules
import requests, yaml
print(json.dumps([held, searches]))
"""
UNUSED = ["requests", "pygments", "yaml", "django.test", "rest_framework.test"]


def test_what_serves_no_request_is_not_loaded_and_a_search_engine_brings_its_client() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *UNUSED],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=PROJECT,
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == [[], True]
