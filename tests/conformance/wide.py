"""The catalogue of the gateway that has everything."""

from typing import Any

import yaml

from tests.support.catalogue import DECISIONS, THREE_WIRES, VECTORS, rewritten

EUROPE, US = "eu.gateway.test", "us.gateway.test"
REGIONAL_HOSTS = f"{EUROPE}=europe,{US}=us"
# One that the operator has no credential for.
LONE = "lone/model"
PRICING = {"prompt": "0.000001", "completion": "0.000002"}


def wide_catalogue(url: str) -> str:
    """The conformance catalogue: the models of all wire kinds and those that decide. It has models
    in two regions, in two tiers and over two wires, some to be counted and timed. One waits for a
    team's own credential. Who is not free asks for each search."""
    known: dict[str, dict[str, Any]] = {"providers": {}, "models": {}}
    for text in (
        rewritten(url),
        rewritten(url, source=THREE_WIRES),
        rewritten(url, source=DECISIONS),
    ):
        catalogue = yaml.safe_load(text)
        known["providers"] |= {each["slug"]: each for each in catalogue["providers"]}
        known["models"] |= {each["id"]: each for each in catalogue["models"]}
    models = list(known["models"].values())
    small, solo, prose = (
        known["models"][f"acme/{name}"] for name in ("small", "solo", "over-anthropic")
    )
    small["aliases"], known["models"]["acme/text"]["aliases"] = ["acme/short"], ["router/fusion"]
    for each in known["models"].values():
        for end in each["endpoints"]:
            if end["pricing"]["prompt"] != "0":
                end["pricing"] = end["pricing"] | {"web_search": "0.005"}
    models += [
        _like(solo, "acme/regional", {}, {"tag": "gamma/eu", "region": "europe"}),
        _like(solo, "acme/cheap", {"pricing": _pricing("0.0000001")}),
        _like(solo, "acme/tiered", {}, {"tag": "gamma/priority", "pricing": _pricing("0.000009")}),
        _like(
            small,
            "acme/weighed",
            {"pricing": _pricing("0.0000005")},
            {"provider": "beta", "pricing": _pricing("0.0000015")},
        ),
        _like(small, "acme/paced", {}, {"provider": "beta"}),
        _like(prose, "acme/boxed", {"extra_parameters": ["container"]}, {"provider": "chat-a"}),
    ]
    models += yaml.safe_load(VECTORS)
    providers = [*known["providers"].values(), {"slug": "lone", "name": "Lone"}]
    providers[-1]["base_url"] = f"{url}/lone/v1"
    end = {"provider": "lone", "upstream_model": "m", "pricing": PRICING}
    models.append(
        {"id": LONE, "name": "Lone", "endpoints": [end | {"max_completion_tokens": 1000}]}
    )
    written: str = yaml.safe_dump({"providers": providers, "models": models}, sort_keys=False)
    return written


def _pricing(usd: str) -> dict[str, str]:
    return {"prompt": usd, "completion": usd}


def _like(model: dict[str, Any], its_id: str, *changes: dict[str, Any]) -> dict[str, Any]:
    """Another model whose endpoints are the first one's with these changes."""
    first, upstream = model["endpoints"][0], its_id.partition("/")[2]
    ends = []
    for change in changes:
        end = {**first, **change}
        ends.append({**end, "upstream_model": f"{upstream}-{end.get('tag') or end['provider']}"})
    return {
        **model,
        "id": its_id,
        "aliases": [],
        "canonical_slug": its_id,
        "family": None,
        "endpoints": ends,
    }
