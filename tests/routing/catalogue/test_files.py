"""Files of the catalogue: loaded and dumped by commands, read back as they were."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from routing.catalogue.files import DocumentError, dump, parse
from routing.catalogue.load import load_catalogue
from routing.catalogue.models import Endpoint, Model, Provider
from routing.catalogue.version import current_version
from routing.management.commands.dump_catalogue import dump_catalogue
from tests.routing.catalogue.conftest import FIXTURE, run

pytestmark = pytest.mark.django_db


def answer(*arguments: str) -> tuple[int, Any]:
    status, out, _ = run(*arguments, "--json")
    return status, json.loads(out)


def test_loading_answers_with_one_object() -> None:
    status, report = answer("load_catalogue", str(FIXTURE), "--wait")

    assert status == 0
    assert report["version"] == current_version() > 0
    assert len(report["added"]) == 17
    assert set(report) == {
        *("version", "added", "changed", "disabled", "unchanged", "errors", "warnings")
    }


def test_a_file_with_faults_is_told_on_both_streams(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("models: [{id: acme/x}]", encoding="utf-8")

    status, out, err = run("load_catalogue", str(file), "--json")

    assert status == 1
    assert json.loads(out)["errors"] == ["models[0].name: Field required"]
    assert err == "models[0].name: Field required\n"


@pytest.mark.parametrize("content", [b"a: [", b"\xff\xfe\x00", None])
def test_a_file_that_is_no_catalogue_or_not_there_is_an_error(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "bad.yaml"
    if content is not None:
        file.write_bytes(content)

    status, report = answer("load_catalogue", str(file))

    assert (status, len(report["errors"])) == (1, 1)
    assert content is not None or "bad.yaml" in report["errors"][0]


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"models": []}'))

    assert answer("load_catalogue", "-")[0] == 0


@pytest.mark.parametrize("form", ["--json", "--verbosity=1"])
def test_a_dump_is_a_file_that_loads_back_unchanged(
    conformance: dict[str, Any], tmp_path: Path, form: str
) -> None:
    file = tmp_path / "dump.yaml"
    file.write_text(run("dump_catalogue", form)[1], encoding="utf-8")

    status, report = answer("load_catalogue", str(file), "--prune")

    assert (status, report["changed"], report["disabled"]) == (0, [], [])
    assert len(report["unchanged"]) == 17


def everything(small: dict[str, Any]) -> dict[str, Any]:
    """The small catalogue with every optional key in use."""
    provider, model = small["providers"][0], small["models"][0]
    endpoint = model["endpoints"][0]
    provider |= {"kind": "responses", "datacenters": ["DE", "US"], "headquarters": "DE"}
    provider |= {"privacy_policy_url": "https://example.com/privacy/", "connect_s": 1.5}
    provider |= {"total_s": 60.0, "status": -1}
    model |= {"description": "Line one\nline two: with “marks”, 'quotes' and # signs"}
    model |= {"canonical_slug": "acme/one-2026", "created": 1, "aliases": ["x/b", "x/a"]}
    model |= {"family": "acme/one", "visible": False, "decisions": False, "distillable": True}
    model |= {"decisions_temperature": 1.4, "categories": ["science"]}
    model |= {"knowledge_cutoff": "2025-01-01", "supported_voices": ["alto"]}
    model |= {"default_parameters": {"temperature": 0.5, "top_p": None}}
    model |= {"per_request_limits": {"prompt_tokens": 5, "completion_tokens": None}}
    model |= {"reasoning": {"mandatory": True, "supported_efforts": ["high", "low"]}}
    endpoint |= {"tag": "acme/flex", "tier": "default", "region": "europe", "status": -2}
    endpoint |= {"zdr": True, "collects_data": False, "quantization": "fp8"}
    endpoint |= {"input_modalities": ["text"], "decisions_max_levels": 5}
    endpoint |= {"supported_parameters": ["tools", "temperature"]}
    nights = {"utc_start": "0030", "utc_end": "0600", "prompt": "3"}
    endpoint["pricing"] = {"prompt": "1", "completion": "2", "discount": 0.5, "overrides": [nights]}
    return small


@pytest.mark.both
def test_a_dump_loads_back_unchanged_and_rebuilds_the_catalogue_from_nothing(
    small: dict[str, Any],
) -> None:
    load_catalogue(everything(small))
    text = dump(dump_catalogue())

    report = load_catalogue(parse(text), prune=True)
    assert report["errors"] == report["added"] == report["changed"] == report["disabled"] == []
    assert "credential" not in text

    for rows in (Endpoint, Model, Provider):
        rows.objects.all().delete()
    load_catalogue(parse(text))
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
