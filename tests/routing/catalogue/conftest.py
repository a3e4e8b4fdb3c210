"""Catalogues to test with: the conformance fixture, loaded, and small ones made to measure.

Imports of models stand inside the fixtures: this file may be read before Django is set up.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from routing.catalogue.files import parse

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "conformance.yaml"


@pytest.fixture(autouse=True)
def fresh_catalogue() -> Iterator[None]:
    """Tests roll versions back, so no snapshot may outlive its test."""
    from routing.catalogue.snapshot import catalogue

    catalogue.forget()
    yield
    catalogue.forget()


@pytest.fixture
def conformance_data() -> dict[str, Any]:
    data: dict[str, Any] = parse(FIXTURE.read_text(encoding="utf-8"))
    return data


@pytest.fixture
def conformance(db: None, conformance_data: dict[str, Any]) -> dict[str, Any]:
    """The report of having loaded the fixture."""
    from routing.catalogue.load import load_catalogue

    report = load_catalogue(conformance_data)
    assert report["errors"] == []
    return report


@pytest.fixture
def small() -> dict[str, Any]:
    """One provider, one model, one endpoint; tests bend it."""
    pricing = {"prompt": "0.000001", "completion": "0.000002"}
    endpoint = {"provider": "acme", "upstream_model": "one", "pricing": pricing}
    return {
        "providers": [{"slug": "acme", "name": "Acme", "base_url": "http://127.0.0.1:9/v1"}],
        "models": [{"id": "acme/one", "name": "One", "endpoints": [endpoint]}],
    }


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except SystemExit as end:
        status = int(end.code or 0)
    except CommandError as refusal:
        status = refusal.returncode
    return status, out.getvalue(), err.getvalue()
