"""A caller of any format at two endpoints of one wire kind. Model `KIND/pair` is at `KIND-a` and
`KIND-b`, whose bills end with the connection but for those named."""

from collections.abc import Sequence
from typing import Any

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.asking import PERSONAS
from tests.conformance.desk import Desk
from tests.conformance.pairs import Pair
from tests.faults.bench import endpoint, model, provider
from tests.faults.conftest import GatewayWith
from tests.support.gateways import seed_account
from tests.support.server import GatewayServer
from tests.support.speakers import SPEAKERS


def gateway_of_pairs(
    gateway_with: GatewayWith,
    upstream: SimulatedUpstream,
    *more: dict[str, Any],
    uncancellable: Sequence[str] = (),
    **env: str,
) -> GatewayServer:
    providers = [
        provider(slug, f"{upstream.url}/{persona}-{place}/v1", kind=kind)
        | {"supports_cancellation": slug not in uncancellable}
        for kind, persona in PERSONAS.items()
        for place in "ab"
        for slug in [f"{kind}-{place}"]
    ]
    pairs = [model(f"{kind}/pair", *map(endpoint, order_of(kind))) for kind in PERSONAS]
    return gateway_with([*pairs, *more], providers=providers, ROUTER_RETRY_BACKOFF="0.01", **env)


def order_of(kind: str) -> list[str]:
    return [f"{kind}-a", f"{kind}-b"]


def pair_of(
    server: GatewayServer,
    upstream: SimulatedUpstream,
    speaker: str = "chat",
    kind: str = "openai",
    credits_usd: str = "1000",
) -> Pair:
    """A fresh account's; the upstream has forgotten all others."""
    upstream.clear()
    desk = Desk(server, upstream, seed_account(server, credits_usd=credits_usd))
    return Pair(SPEAKERS[speaker], kind, desk)


def script(pair: Pair, place: str, *steps: dict[str, Any]) -> None:
    pair.desk.upstream.script(f"{PERSONAS[pair.kind]}-{place}", *steps)
