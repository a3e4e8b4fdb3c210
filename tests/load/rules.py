"""What limits, guardrails, budgets and presets cost a request: the same gateway with all of them on
beside it without any.

The second gateway stands on the same database and catalogue. Rate limits are settings, the rest
belongs to an account of its own. It has a limit on the key, two budgets of its workspace, rate
limits of both, and a guardrail with a budget. It also has lists, a data policy and content filters,
and a preset that each request names.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.load.accounting import ProcessTree
from tests.load.stand import CREDITS_USD, Stand
from tests.load.targets import Target
from tests.support.gateways import SeededAccount, seed_account
from tests.support.server import GatewayServer

# None of them is ever met.
_RATES: Final = {"ROUTER_KEY_RPM": "1000000000", "ROUTER_KEY_TPM": "1000000000000"}
_MANY: Final = 1_000_000_000
_KEY_RATES: Final = [
    {
        "requests_per_minute": _MANY,
        "burst": _MANY // 60 + 1,
        "requests_per_day": _MANY,
        "tokens_per_minute": _MANY,
        "concurrent": _MANY,
    },
    {"scope": {"model": "bench/whole"}, "requests_per_minute": _MANY},
    {"scope": {"user": "*"}, "requests_per_minute": _MANY},
]
_WORKSPACE_RATES: Final = [{"requests_per_minute": _MANY, "concurrent": _MANY}]
_LIMIT_USD: Final = 100_000
_GUARDRAIL: Final = {
    "name": "Careful",
    "limit_usd": _LIMIT_USD,
    "reset_interval": "monthly",
    "allowed_models": ["bench/whole"],
    "allowed_providers": ["whole"],
    "ignored_providers": ["paced"],
    "enable_paid_model_training": False,
    "content_filters": [{"pattern": "secret-[0-9]+", "action": "redact"}],
    "content_filter_builtins": [{"slug": "email", "action": "redact"}],
}
_PRESET: Final = {"temperature": 0.5, "top_p": 0.9}


@contextmanager
def ruled_gateway(stand: Stand, body: str) -> Iterator[tuple[Target, ProcessTree]]:
    """A gateway whose requests are held to all of it: what to ask, and its processes.

    `body` is a plain request of the other one's.
    """
    server = stand.new_gateway("second", _RATES)
    try:
        account = seed_account(server, credits_usd=CREDITS_USD)
        server.start()
        _rule(server, account)
        asked = json.dumps(json.loads(body) | {"preset": "bench"})
        url = f"{server.base_url}/chat/completions"
        yield Target(url, account.api_key, asked), ProcessTree(server.pid)
    finally:
        server.stop()


def _rule(server: GatewayServer, account: SeededAccount) -> None:
    def put(method: str, path: str, body: dict[str, Any], *, key: str) -> Any:
        answer = server.request(method, f"/api/v1/{path}", key=key, json=body)
        assert answer.ok, answer.text
        return answer.json()

    manage, key_hash = account.management_key, account.api_key_hash
    limit = {"limit": _LIMIT_USD, "limit_reset": "monthly", "rate_limits": _KEY_RATES}
    path = f"workspaces/{account.workspace_id}"
    put("PATCH", path, {"rate_limits": _WORKSPACE_RATES}, key=manage)
    put("PATCH", f"keys/{key_hash}", limit, key=manage)
    for interval, times in (("monthly", 2), ("daily", 1)):
        path = f"workspaces/{account.workspace_id}/budgets/{interval}"
        put("PUT", path, {"limit_usd": times * _LIMIT_USD}, key=manage)
    made = put("POST", "guardrails", _GUARDRAIL, key=manage)
    path = f"guardrails/{made['data']['id']}/assignments/keys"
    put("POST", path, {"key_hashes": [key_hash]}, key=manage)
    put("POST", "presets/bench/chat/completions", _PRESET, key=account.api_key)
