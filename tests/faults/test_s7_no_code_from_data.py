"""S7: nothing that is data is ever run: no template, pickle, eval or shell takes what came in."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

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
ALLOWED = {("routing/catalogue/document.py", "yaml.load")}


def sources() -> Iterator[Path]:
    for app in APPS:
        yield from (PROJECT / app).rglob("*.py")


def findings(path: Path, text: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(text)):
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
        for finding in findings(path.relative_to(PROJECT), path.read_text(encoding="utf-8"))
    }
    assert found - ALLOWED == set()


def test_only_what_is_inside_a_sandbox_hands_texts_to_a_shell() -> None:
    """Words for a shell or an interpreter behind `-c`, unless they are written in the source."""
    found = {
        str(path.relative_to(PROJECT))
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.List | ast.Tuple | ast.Call) and _runs_a_text(node)
    }
    assert found == {"interns/agent/shell.py", "routing/tools/inside.py"}


def _runs_a_text(node: ast.List | ast.Tuple | ast.Call) -> bool:
    words = node.args if isinstance(node, ast.Call) else node.elts
    places = [place for place, word in enumerate(words[:-1]) if _is_text(word, "-c")]
    return any(not _is_written(words[place + 1]) for place in places)


def _is_text(node: ast.expr, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _is_written(node: ast.expr) -> bool:
    """A text, or the name of one that the module says once and for all."""
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


@pytest.mark.parametrize(
    "line",
    [
        "eval(body)",
        "pickle.loads(body)",
        "import pickle",
        "from marshal import loads",
        "subprocess.run(line, shell=True)",
        "os.system(line)",
        "yaml.load(text)",
        "safestring.mark_safe(text)",
        "engine.from_string(text)",
    ],
)
def test_the_search_finds_each_of_them(line: str) -> None:
    assert list(findings(Path("x.py"), line))


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
@pytest.mark.parametrize("text", ["{{7*7}}", "{% debug %}", "${7*7}", "<script>alert(1)</script>"])
def test_a_template_that_came_in_stays_text(text: str) -> None:
    response = Client().post(
        "/api/v1/chat/completions", {"model": text}, content_type="application/json"
    )
    assert response["Content-Type"] == "application/json"
    assert b"49" not in response.content
