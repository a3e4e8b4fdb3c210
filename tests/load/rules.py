"""What limits, guardrails, budgets and presets cost a request: the same gateway with all of them on
beside it without any.

The second gateway stands on the same database and catalogue. Rate limits are settings, the rest
belongs to an account of its own: a limit on the key, two budgets of its workspace, a guardrail with
a budget, lists, a data policy and content filters, and a preset that each request names.
"""

import json
from typing import Any, Final

from tests.load.accounting import WebProcesses, spent_s
from tests.load.figures import Interval
from tests.load.generators import Generator, Target
from tests.load.stand import CREDITS_USD, Stand
from tests.support.gateways import SeededAccount, seed_account
from tests.support.server import GatewayServer

# None of them is ever met.
_RATES: Final = {"ROUTER_KEY_RPM": "1000000000", "ROUTER_KEY_TPM": "1000000000000"}
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


class RuledGateway:
    """`with RuledGateway(stand, body) as ruled:` a gateway whose requests are held to all of it.

    `body` is a plain request of the other one's.
    """

    def __init__(self, stand: Stand, body: str) -> None:
        self._server: GatewayServer = stand.second_gateway(_RATES)
        self._body = json.loads(body) | {"preset": "bench"}

    def __enter__(self) -> "RuledGateway":
        account = seed_account(self._server, credits_usd=CREDITS_USD)
        self._server.start()
        self._rule(account)
        self._web = WebProcesses(self._server.pid)
        url = f"{self._server.base_url}/chat/completions"
        self.target = Target(url, account.api_key, json.dumps(self._body))
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def load(self, generator: Generator, *, connections: int, seconds: float) -> Interval:
        """One interval."""
        before = self._web.cpu_s()
        load = generator.run(self.target, connections=connections, seconds=seconds)
        cpu_s = spent_s(before, self._web.cpu_s())
        return Interval(load.requests - load.failed, load.seconds, cpu_s, load.p50_ms)

    def _rule(self, account: SeededAccount) -> None:
        manage, key = account.management_key, account.api_key_hash
        self._put("PATCH", f"keys/{key}", manage, {"limit": _LIMIT_USD, "limit_reset": "monthly"})
        for interval, times in (("monthly", 2), ("daily", 1)):
            path = f"workspaces/{account.workspace_id}/budgets/{interval}"
            self._put("PUT", path, manage, {"limit_usd": times * _LIMIT_USD})
        made = self._put("POST", "guardrails", manage, _GUARDRAIL)
        path = f"guardrails/{made['data']['id']}/assignments/keys"
        self._put("POST", path, manage, {"key_hashes": [key]})
        self._put("POST", "presets/bench/chat/completions", account.api_key, _PRESET)

    def _put(self, method: str, path: str, key: str, body: dict[str, Any]) -> Any:
        answer = self._server.request(method, f"/api/v1/{path}", key=key, json=body)
        assert answer.ok, answer.text
        return answer.json()
