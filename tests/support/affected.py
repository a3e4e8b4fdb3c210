"""Which test files a change of some files can touch.

Usage: python -m tests.support.affected FILE... prints them, one a line. A test is touched by a
module that it imports, directly or through one other module or helper. Tests over HTTP import
nothing of the gateway, so those in the folder of the module's name are touched as well.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
APPS = ("gateway", "accounts", "routing", "interns", "console")
# Further steps reach nearly everything, because the URL map imports all views.
STEPS_MAX = 2
# To parse every file takes ten times as long.
_IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|.*)|import (.*))", re.MULTILINE)
_RENAMED, _WORD = re.compile(r" as \w+"), re.compile(r"[\w.]+")


def module_name(file: Path) -> str:
    """`routing/selection/health.py` is `routing.selection.health`; a package is its folder."""
    return ".".join(file.with_suffix("").parts).removesuffix(".__init__")


def list_imports(source: str) -> Iterator[str]:
    """Every dotted name that an import may mean: of `from a import b` both `a` and `a.b`."""
    for module, names, modules in _IMPORT.findall(source):
        words = _WORD.findall(_RENAMED.sub("", names or modules))
        yield from (module, *(f"{module}.{word}" for word in words)) if module else words


def importers() -> dict[str, set[Path]]:
    """The files that import each module, relative to the project."""
    found: dict[str, set[Path]] = {}
    for top in (*APPS, "tests"):
        for file in (PROJECT / top).rglob("*.py"):
            path = file.relative_to(PROJECT)
            for name in list_imports(file.read_text(encoding="utf-8")):
                found.setdefault(name, set()).add(path)
    return found


def affected_tests(changed: list[Path]) -> set[Path]:
    """Test files within `STEPS_MAX` imports of a changed file, and those of its folder."""
    graph = importers()
    touched, edge = set(changed), set(changed)
    for _ in range(STEPS_MAX):
        edge = {each for file in edge for each in graph.get(module_name(file), ())} - touched
        touched |= edge
    for file in changed:
        folder = PROJECT / "tests" / file.parent
        touched |= {each.relative_to(PROJECT) for each in folder.glob("test_*.py")}
    return {file for file in touched if file.parts[0] == "tests" and file.name.startswith("test_")}


def main() -> int:
    files = {
        inner.relative_to(PROJECT)
        for given in map(Path, sys.argv[1:])
        for inner in (given.resolve().rglob("*.py") if given.is_dir() else [given.resolve()])
    }
    if not files:
        sys.stderr.write("name the files or folders that changed\n")
        return 2
    sys.stdout.write("\n".join(sorted(map(str, affected_tests(sorted(files))))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
