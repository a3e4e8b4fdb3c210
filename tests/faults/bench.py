"""A catalogue in which every fault of the simulated upstream has models of its own.

A model is tried by one test only, so that no test meets the health another one left behind.
`alone/F.whole` has one endpoint with fault F. `pair/F.whole` has a good one beside it, at a
thousand times the price, so that the faulty one is as good as always drawn first. `.stream` is the
same for streams.
"""

from typing import Any

import yaml

from routing.simulator.testing import SimulatedUpstream

PARAMETERS = ["temperature", "max_tokens", "tools", "tool_choice", "response_format", "logprobs"]
CHEAP = {"prompt": "0.000001", "completion": "0.000002"}
DEAR = {"prompt": "0.001", "completion": "0.002"}
# What CHEAP and DEAR cost per token, in nano-USD.
CHEAP_NANO, DEAR_NANO = (1_000, 2_000), (1_000_000, 2_000_000)
MODES = ("whole", "stream")


def provider(slug: str, base_url: str, **more: Any) -> dict[str, Any]:
    """Its credential is `<slug>-secret`; a stream of it can be cancelled."""
    return {
        "slug": slug,
        "name": slug.capitalize(),
        "base_url": base_url,
        "credential": f"{slug}-secret",
        "supports_cancellation": True,
        **more,
    }


def endpoint(provider_slug: str, upstream_model: str = "good", **more: Any) -> dict[str, Any]:
    return {
        "provider": provider_slug,
        "upstream_model": upstream_model,
        "max_completion_tokens": 1000,
        "pricing": CHEAP,
        "supported_parameters": PARAMETERS,
        **more,
    }


def model(model_id: str, *endpoints: dict[str, Any], **more: Any) -> dict[str, Any]:
    endpoints_ = list(endpoints)
    return {"id": model_id, "name": model_id, "context_length": 128_000, **more} | {
        "endpoints": endpoints_
    }


def personas(upstream: SimulatedUpstream) -> list[dict[str, Any]]:
    """First, second, third; and one whose streams cannot be cancelled."""
    slugs = ("first", "second", "third")
    found = [provider(slug, f"{upstream.url}/{slug}/v1") for slug in slugs]
    drained = provider("drained", f"{upstream.url}/drained/v1", supports_cancellation=False)
    return [*found, drained]


def fault_models(upstream: SimulatedUpstream) -> list[dict[str, Any]]:
    found = []
    for name in upstream.control("GET", "/_faults")["faults"]:
        for mode in MODES:
            faulty = endpoint("first", f"sim/{name}")
            found.append(model(f"alone/{name}.{mode}", faulty))
            good = endpoint("second", pricing=DEAR)
            found.append(model(f"pair/{name}.{mode}", faulty, good))
    return found


def plain_models() -> list[dict[str, Any]]:
    """Models for scripts, which decide by persona rather than by model."""
    return [
        model("plain/first", endpoint("first")),
        model("plain/second", endpoint("second")),
        model("plain/drained", endpoint("drained")),
        model("plain/third", endpoint("third", pricing=DEAR)),
    ]


def as_yaml(providers: list[dict[str, Any]], models: list[dict[str, Any]]) -> str:
    text: str = yaml.safe_dump({"providers": providers, "models": models}, sort_keys=False)
    return text
