"""Web processes hold what serves requests, and the rest is there for whoever asks."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.manage import PROJECT

PROGRAM = """
import json, os, sys
os.environ.update({settings})
import gateway.wsgi
from django.urls import get_resolver
get_resolver().url_patterns
from importlib import import_module
import_module("routing.process")
import_module("routing.tools.web.search").load_search_client()
held = [name for name in {names} if name in sys.modules]
import requests, yaml
from drf_spectacular.generators import SchemaGenerator
described = SchemaGenerator().get_schema(public=True)["paths"]
print(json.dumps({{"held": held, "described": "/api/v1/models" in described}}))
"""
UNUSED = ["requests", "pygments", "yaml", "django.test", "rest_framework.test"]


def told(names: list[str], **settings: str) -> Any:
    program = PROGRAM.format(settings=settings, names=names)
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=PROJECT
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def test_what_serves_no_request_is_not_loaded() -> None:
    assert told(UNUSED) == {"held": [], "described": True}


@pytest.mark.thorough
def test_a_search_engine_brings_its_client_before_requests_come() -> None:
    found = told(["requests"], ROUTER_SEARCH_ENGINE="brave", ROUTER_SEARCH_KEY="k")
    assert found["held"] == ["requests"]
