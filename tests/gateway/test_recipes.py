"""The recipes of CONTRIBUTING.md, followed in a copy of the product, work as they stand there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.manage import PROJECT

RECIPE = re.compile(r"<!-- recipe: (\w+), ([^\n]*) -->\n```\w+\n(.*?)```", re.DOTALL)
STEPS = RECIPE.findall((PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
PLACE = re.compile(r'(after|instead of) "(.*)" in (\S+)')
START = "import django\ndjango.setup()\n"


def follow(place: str, text: str, copy: Path) -> None:
    """Write a step's lines where it says."""
    if place.startswith("at the end of "):
        file = copy / place.removeprefix("at the end of ")
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        file.write_text(f"{before}\n\n{text}" if before else text, encoding="utf-8")
        return
    match = PLACE.fullmatch(place)
    assert match, place
    how, anchor, name = match.groups()
    lines = (copy / name).read_text(encoding="utf-8").splitlines(keepends=True)
    index = next(i for i, line in enumerate(lines) if line.strip() == anchor)
    lines[index : index + 1] = [lines[index], text] if how == "after" else [text]
    (copy / name).write_text("".join(lines), encoding="utf-8")


@pytest.mark.parametrize("recipe", list(dict.fromkeys(name for name, _, _ in STEPS)))
def test_a_recipe_works_as_it_stands(tmp_path: Path, recipe: str) -> None:
    for app in ("gateway", "accounts", "routing", "interns", "console"):
        # With what was compiled of it.
        shutil.copytree(PROJECT / app, tmp_path / app)
    checks = ""
    for name, place, text in STEPS:
        if name == recipe and place == "check":
            checks += text
        elif name == recipe:
            follow(place, text, tmp_path)

    env = {"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "gateway.settings"}
    done = subprocess.run(
        [sys.executable, "-c", START + checks],
        cwd=tmp_path,
        env=env | {"GATEWAY_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert checks
    assert done.returncode == 0, done.stderr
