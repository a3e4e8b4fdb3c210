"""Readiness: looking for it, and telling people and programs about it."""

import http.client
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.home import write_private
from gateway.run.plan import Plan

_LOOK_S = 2.5
DEMO_MODEL = "simulated/small"
# The cheapest simulated provider of that model.
_FAILING = "thrifty"


def answers(root_url: str, path: str) -> bool:
    """Whether `GET` of the path is 200."""
    parts = urlsplit(root_url)
    is_secure = parts.scheme == "https"
    connect = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
    connection = connect(parts.netloc, timeout=_LOOK_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def facts(plan: Plan, demo: dict[str, Any], simulator_url: str) -> dict[str, Any]:
    """What `ready.json` holds."""
    metrics_url = None
    with suppress(FileNotFoundError):
        metrics_url = metrics_url_file(plan).read_text(encoding="utf-8")
    return {
        "pid": os.getpid(),
        "base_url": f"{plan.root_url}/api/v1",
        "root_url": plan.root_url,
        "admin_url": f"{plan.root_url}/admin/",
        **demo,
        "console_link": plan.root_url + demo["console_link"],
        "simulator_url": simulator_url or None,
        "broker_url": plan.environment().get("REDIS_URL") or None,
        "metrics_url": metrics_url,
        "version": plan.version,
    }


def metrics_url_file(plan: Plan) -> Path:
    """Where the web process that serves metrics says so (`gateway.metrics.listener`)."""
    return plan.run / "metrics" / "url"


def ready_file(plan: Plan) -> Path:
    return plan.run / "ready.json"


def announce(plan: Plan, facts: dict[str, Any]) -> None:
    """Write `ready.json`, whole and private."""
    write_private(ready_file(plan), json.dumps(facts, indent=2) + "\n")


def banner(facts: dict[str, Any]) -> str:
    return f"""
Routing Gateway {facts["version"]} is ready. Ctrl-C stops it.

  API             {facts["base_url"]}
  API key         {facts["api_key"]}
  Management key  {facts["management_key"]}
  Console         {facts["console_link"]}
                  (signs you in once, within an hour)
  Admin           {facts["admin_url"]}  ({facts["admin_user"]} / {facts["admin_password"]})

Try it:

{curl(facts)}
{_failover(facts)}
"""


def _failover(facts: dict[str, Any]) -> str:
    """Another line to paste, on the demo: a provider fails for a minute, and the next answers."""
    if not facts["simulator_url"]:
        return ""
    outage = f"{facts['simulator_url']}/_outage/{_FAILING}"
    order = {"provider": {"order": [f"simulated-{_FAILING}", "simulated-steady"]}}
    return f"""
Then let {_FAILING.title()} fail for a minute, and see under Requests in the console who takes over:

curl -s -X PUT {outage} -d '{{"seconds": 60}}' && {curl(facts, **order)}
"""


def curl(facts: dict[str, Any], **more: Any) -> str:
    """One line to paste: a chat with a simulated model, or the list of models without one. The
    chat has `more` fields."""
    key = f"-H 'Authorization: Bearer {facts['api_key']}'"
    if not facts["simulator_url"]:
        return f"curl -s {facts['base_url']}/models {key}"
    messages = [{"role": "user", "content": "Hello"}]
    body = json.dumps({"model": DEMO_MODEL, "messages": messages, **more})
    kind = "-H 'Content-Type: application/json'"
    return f"curl -s {facts['base_url']}/chat/completions {key} {kind} -d '{body}'"
