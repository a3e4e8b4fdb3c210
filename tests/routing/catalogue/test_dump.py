from typing import Any

import pytest

from routing.catalogue.document import DocumentError, dump, parse
from routing.catalogue.dumping import dump_catalogue
from routing.catalogue.load import load
from routing.catalogue.models import Endpoint, Model, Provider

pytestmark = pytest.mark.django_db


def everything(small: dict[str, Any]) -> dict[str, Any]:
    """The small catalogue with every optional key in use."""
    small["providers"][0] |= {
        "kind": "responses",
        "datacenters": ["DE", "US"],
        "headquarters": "DE",
        "privacy_policy_url": "https://example.com/privacy/",
        "connect_s": 1.5,
        "total_s": 60.0,
        "status": -1,
    }
    small["models"][0] |= {
        "canonical_slug": "acme/one-2026",
        "description": "Line one\nline two: with “marks”, 'quotes' and # signs",
        "created": 1,
        "aliases": ["x/b", "x/a"],
        "family": "acme/one",
        "visible": False,
        "decisions": False,
        "decisions_temperature": 1.4,
        "distillable": True,
        "categories": ["science"],
        "knowledge_cutoff": "2025-01-01",
        "default_parameters": {"temperature": 0.5, "top_p": None},
        "per_request_limits": {"prompt_tokens": 5, "completion_tokens": None},
        "reasoning": {"mandatory": True, "supported_efforts": ["high", "low"]},
        "supported_voices": ["alto"],
    }
    small["models"][0]["endpoints"][0].update(
        tag="acme/flex",
        tier="default",
        region="europe",
        status=-2,
        zdr=True,
        collects_data=False,
        quantization="fp8",
        input_modalities=["text"],
        decisions_max_levels=5,
        supported_parameters=["tools", "temperature"],
        pricing={
            "prompt": "1",
            "completion": "2",
            "discount": 0.5,
            "overrides": [{"utc_start": "0030", "utc_end": "0600", "prompt": "3"}],
        },
    )
    return small


@pytest.mark.both
@pytest.mark.parametrize("scope", ["small", "fixture"])
def test_a_dump_loads_back_unchanged(
    small: dict[str, Any], conformance_data: dict[str, Any], scope: str
) -> None:
    load(everything(small) if scope == "small" else conformance_data)
    text = dump(dump_catalogue())

    report = load(parse(text), prune=True)

    assert report["errors"] == report["added"] == report["changed"] == report["disabled"] == []
    assert "credential" not in text


@pytest.mark.both
def test_a_dump_rebuilds_the_catalogue_from_nothing(small: dict[str, Any]) -> None:
    load(everything(small))
    text = dump(dump_catalogue())
    for rows in (Endpoint, Model, Provider):
        rows.objects.all().delete()

    load(parse(text))

    assert dump(dump_catalogue()) == text


@pytest.mark.parametrize(
    "text",
    ["a: [", "a: 1\na: 2", "{'a': 1, 'a': 2}", "a: !!python/object:os.system {}", "? [a]\n: b"],
)
def test_a_text_that_means_nothing_definite_is_refused(text: str) -> None:
    with pytest.raises(DocumentError):
        parse(text)


def test_json_is_read_even_with_tabs() -> None:
    assert parse('{\n\t"models": []\n}') == {"models": []}
