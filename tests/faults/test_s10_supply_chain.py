"""S10: what CI says about the packages the gateway runs with."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.manage import PROJECT


def ci(name: str) -> ModuleType:
    """A script of `.ci`, which is no package, as a module."""
    spec = importlib.util.spec_from_file_location(f"ci_{name}", PROJECT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their own module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


GOOD = {"name": "good", "version": "1.0", "vulns": []}
BAD = {
    "name": "bad",
    "version": "2.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"], "aliases": []}],
}
UNKNOWN = {"name": "unknown", "skip_reason": "Dependency not found on PyPI: unknown (3.0)"}


def report(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


@pytest.mark.parametrize(
    ("packages", "problems"),
    [
        ([GOOD], []),
        ([GOOD, BAD], ["bad 2.0 has PYSEC-1, mended in 2.1"]),
        ([GOOD, UNKNOWN], ["not audited: Dependency not found on PyPI: unknown (3.0)"]),
    ],
)
def test_a_known_vulnerability_fails_and_so_does_a_package_nobody_knows(
    packages: list[dict[str, Any]], problems: list[str]
) -> None:
    found = ci("audit").verdict(report(*packages), "")

    assert found.problems == problems
    assert found.unreachable == ""


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (report(UNKNOWN, UNKNOWN), "No known vulnerabilities found"),
        ("", "requests.exceptions.ConnectionError: HTTPSConnectionPool: Max retries exceeded"),
        ("", "ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed"),
        ("", "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url"),
    ],
)
def test_a_service_out_of_reach_is_told_and_fails_nobody(answer: str, words: str) -> None:
    found = ci("audit").verdict(answer, words)

    assert found.unreachable
    assert found.problems == []


@pytest.mark.parametrize(
    "words",
    ["ERROR:pip_audit._cli:requirement foo does not contain a hash", "KeyError: 'name'", ""],
)
def test_any_other_end_of_the_audit_fails(words: str) -> None:
    assert ci("audit").verdict("", words).problems


def test_the_warning_is_said_loudly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = ci("audit")
    monkeypatch.setattr(audit, "ask", lambda lock: (report(UNKNOWN), ""))

    assert audit.main() == 0
    assert "NOTHING WAS AUDITED" in capsys.readouterr().err

    monkeypatch.setattr(audit, "ask", lambda lock: (report(GOOD, BAD), ""))
    assert audit.main() == 1


def test_files_that_run_by_themselves_are_told(tmp_path: Path) -> None:
    check = ci("check_pth")
    assert list(check.unexpected(tmp_path)) == []

    (tmp_path / "distutils-precedence.pth").write_text("import os; os.abort()\n")
    (tmp_path / "new.pth").write_text("../elsewhere\n")
    (tmp_path / "sitecustomize.py").touch()
    (tmp_path / "usercustomize").mkdir()

    told = [line.partition(":")[0] for line in check.unexpected(tmp_path)]
    assert told == ["distutils-precedence.pth", "new.pth", "sitecustomize.py", "usercustomize"]


def test_this_environment_runs_nothing_by_itself() -> None:
    assert ci("check_pth").main() == 0


def test_the_bill_of_materials_names_every_package_of_the_lock() -> None:
    lock = (PROJECT / "requirements.lock").read_text("utf-8")
    pinned = set(re.findall(r"^([a-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", lock, re.MULTILINE))

    found = ci("sbom").bom(lock, {"name": "gateway", "version": "1"})

    assert {(part.name, part.version) for part in found.components} == pinned
    assert all(
        reference.hashes for part in found.components for reference in part.external_references
    )
