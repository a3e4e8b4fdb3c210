"""What a large request under content filters costs the others of its process."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.guarded import GUARDRAILS
from tests.faults.test_hub_silence import LARGE_S, chat_body, quietest_s, ticking
from tests.support.callers import CHAT
from tests.support.gateways import SeededAccount, seed_account
from tests.support.promptness import in_time
from tests.support.server import GatewayServer, as_json
from tests.support.silence import Listener, listening

pytestmark = pytest.mark.thorough

__all__ = ["ticking"]
NASTY = [{"pattern": "[ab]*a[ab]{200}c", "action": "block"}]
# No automaton can be reused on it.
NEVER_THE_SAME = "".join(random.Random(7).choices("ab", k=1 << 20))
REDACTED = [{"slug": "email", "action": "redact"}, {"slug": "phone", "action": "redact"}]


@pytest.fixture
def listener(ticking: tuple[GatewayServer, SeededAccount]) -> Iterator[Listener]:
    with listening(*ticking, "tick/tock") as listener:
        yield listener


@pytest.fixture
def large(ticking: tuple[GatewayServer, SeededAccount]) -> Callable[..., Callable[[], int]]:
    """A large request of an account under a guardrail; it gives its status."""
    server, _ = ticking

    def made(text: str, **said: Any) -> Callable[[], int]:
        theirs = seed_account(server, credits_usd="100000")
        key = theirs.management_key
        guardrail = server.post(GUARDRAILS, key=key, json={"name": "g", **said})
        its_id = as_json(guardrail)["data"]["id"]
        body = {"key_hashes": [theirs.api_key_hash]}
        server.post(f"{GUARDRAILS}/{its_id}/assignments/keys", key=key, json=body)
        data = chat_body(text)
        headers = {"Content-Type": "application/json"}

        def send() -> int:
            answer = server.post(CHAT, key=theirs.api_key, data=data, headers=headers, timeout=60)
            return answer.status_code

        return send

    return made


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("text", "said", "status"),
    [
        ("mail ada@example.org " + "or so " * 50, {"content_filter_builtins": REDACTED}, 200),
        (NEVER_THE_SAME, {"content_filters": NASTY}, 413),
    ],
    ids=["redacted a hundred thousand times", "a pattern that takes too long"],
)
def test_streams_flow_while_texts_are_filtered(
    listener: Listener,
    large: Callable[..., Callable[[], int]],
    text: str,
    said: dict[str, Any],
    status: int,
) -> None:
    send = large(text, **said)
    statuses: list[int] = []

    silence_s = quietest_s(listener, lambda: statuses.append(send()), limit_s=LARGE_S)

    assert set(statuses) == {status}
    in_time(silence_s, LARGE_S)
