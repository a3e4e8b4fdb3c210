import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from routing.catalogue.version import current_version
from tests.routing.catalogue.conftest import FIXTURE

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), err.getvalue()
    except CommandError as refusal:
        return refusal.returncode, out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


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


@pytest.mark.parametrize("content", ["a: [", b"\xff\xfe\x00"])
def test_a_file_that_is_no_catalogue_is_an_error(tmp_path: Path, content: str | bytes) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())

    status, report = answer("load_catalogue", str(file))

    assert status == 1
    assert len(report["errors"]) == 1


def test_a_file_that_is_not_there_is_an_error() -> None:
    status, report = answer("load_catalogue", "no/such/file.yaml")

    assert status == 1
    assert "no/such/file.yaml" in report["errors"][0]


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"models": []}'))

    assert answer("load_catalogue", "-")[0] == 0


def test_a_person_reads_lines() -> None:
    _, out, _ = run("load_catalogue", str(FIXTURE))

    assert "added endpoint acme/small at beta/turbo\n" in out
    assert out.endswith(f"0 unchanged; catalogue version {current_version()}\n")


@pytest.mark.parametrize("form", ["--json", "--verbosity=1"])
def test_a_dump_is_a_file_that_loads_back_unchanged(
    conformance: dict[str, Any], tmp_path: Path, form: str
) -> None:
    file = tmp_path / "dump.yaml"
    file.write_text(run("dump_catalogue", form)[1], encoding="utf-8")

    status, report = answer("load_catalogue", str(file), "--prune")

    assert (status, report["changed"], report["disabled"]) == (0, [], [])
    assert len(report["unchanged"]) == 17
