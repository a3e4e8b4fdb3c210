"""S7: nothing that is data is ever run: no template, pickle, eval or shell takes what came in. S10:
what CI says about the packages the gateway runs with."""

import ast
import importlib.util
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.test import Client

from tests.support.manage import PROJECT

APPS = ("gateway", "accounts", "routing", "interns")
CALLS = {
    "eval", "exec", "compile", "__import__",
    "os.system", "os.popen", "os.execvp", "os.spawnv",
    "pickle.load", "pickle.loads", "marshal.loads", "shelve.open", "dill.loads",
    "yaml.load", "yaml.unsafe_load", "yaml.full_load",
    "mark_safe", "django.utils.safestring.mark_safe", "SafeString",
    "Template", "django.template.Template", "Engine", "from_string", "render_template_string",
    "jinja2.Template", "jinja2.Environment",
    "subprocess.getoutput", "subprocess.getstatusoutput",
}  # fmt: skip
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "jinja2", "xmlrpc"}
# Its loader is a SafeLoader, which makes plain values only.
ALLOWED = {("routing/catalogue/files.py", "yaml.load")}


def sources() -> Iterator[Path]:
    for app in APPS:
        yield from (PROJECT / app).rglob("*.py")


@cache
def list_nodes(path: Path) -> list[ast.AST]:
    """What could be a finding in a source."""
    kinds = ast.Call | ast.Import | ast.ImportFrom | ast.List | ast.Tuple
    text = path.read_text(encoding="utf-8")
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]


def findings(path: Path, nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        name = ""
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if any(word.arg == "shell" for word in node.keywords):
                yield str(path), f"{name}(shell=)"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in MODULES:
                    yield str(path), f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            yield str(path), f"import {node.module}"
        if name in CALLS or name.rpartition(".")[2] in {"mark_safe", "from_string"}:
            yield str(path), name


def test_no_source_runs_data() -> None:
    found = {
        finding
        for path in sources()
        for finding in findings(path.relative_to(PROJECT), list_nodes(path))
    }
    assert found - ALLOWED == set()


def test_only_what_is_inside_a_sandbox_hands_texts_to_a_shell() -> None:
    """Words for a shell or an interpreter behind `-c`, unless they are written in the source."""
    found = {
        str(path.relative_to(PROJECT))
        for path in sources()
        for node in list_nodes(path)
        if isinstance(node, ast.List | ast.Tuple | ast.Call) and _runs_a_text(node)
    }
    assert found == {
        "gateway/run/commands.py",
        "interns/agent/tools.py",
        "routing/tools/sandbox/program.py",
    }


def _runs_a_text(node: ast.List | ast.Tuple | ast.Call) -> bool:
    words = node.args if isinstance(node, ast.Call) else node.elts
    places = [place for place, word in enumerate(words[:-1]) if _is_text(word, "-c")]
    return any(not _is_written(words[place + 1]) for place in places)


def _is_text(node: ast.expr, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _is_written(node: ast.expr) -> bool:
    """A text, or the name of one that the module says once and for all."""
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


CAUGHT = [
    *("eval(body)", "pickle.loads(body)", "import pickle", "from marshal import loads"),
    *("subprocess.run(line, shell=True)", "os.system(line)", "yaml.load(text)"),
    *("safestring.mark_safe(text)", "engine.from_string(text)"),
]


@pytest.mark.parametrize("line", CAUGHT)
def test_the_search_finds_each_of_them(line: str) -> None:
    assert list(findings(Path("x.py"), ast.walk(ast.parse(line))))


def test_the_linter_looks_for_it_too() -> None:
    lint = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    assert "S" in lint["lint"]["select"]
    dangerous = {"S102", "S301", "S302", "S307", "S308", "S506", "S602", "S604", "S605", "S701"}
    ignored = set(lint["lint"]["ignore"]).union(*lint["lint"]["per-file-ignores"].values())
    assert not dangerous & ignored
    assert "S" not in ignored


def test_templates_escape_what_they_show() -> None:
    for app in APPS:
        for template in (PROJECT / app).rglob("templates/**/*.html"):
            text = template.read_text(encoding="utf-8")
            assert "|safe" not in text.replace(" ", ""), template
            assert "autoescape off" not in text, template


@pytest.mark.django_db
def test_a_template_that_came_in_stays_text() -> None:
    body = {"model": "{{7*7}} ${7*7} {% debug %}"}
    response = Client().post("/api/v1/chat/completions", body, content_type="application/json")
    assert response["Content-Type"] == "application/json"
    assert b"49" not in response.content


# --- S10: the supply chain ------------------------------------------------------------------------


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
KNOWN = {"id": "PYSEC-1", "fix_versions": ["2.1"], "aliases": []}
BAD = {"name": "bad", "version": "2.0", "vulns": [KNOWN]}
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

    assert (found.problems, found.unreachable) == (problems, "")


OUT_OF_REACH = [
    "requests.exceptions.ConnectionError: HTTPSConnectionPool: Max retries exceeded",
    "ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed",
    "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url",
]
OTHER_ENDS = [
    "ERROR:pip_audit._cli:requirement foo does not contain a hash",
    "KeyError: 'name'",
    "",
]


def test_a_service_out_of_reach_is_told_and_fails_nobody_and_any_other_end_fails() -> None:
    verdict = ci("audit").verdict
    nobody_known = verdict(report(UNKNOWN, UNKNOWN), "No known vulnerabilities found")
    for found in (nobody_known, *(verdict("", words) for words in OUT_OF_REACH)):
        assert found.unreachable
        assert found.problems == []
    assert all(verdict("", words).problems for words in OTHER_ENDS)


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
    assert list(check.list_unexpected(tmp_path)) == []

    (tmp_path / "distutils-precedence.pth").write_text("import os; os.abort()\n")
    (tmp_path / "new.pth").write_text("../elsewhere\n")
    (tmp_path / "sitecustomize.py").touch()
    (tmp_path / "usercustomize").mkdir()

    told = [line.partition(":")[0] for line in check.list_unexpected(tmp_path)]
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
