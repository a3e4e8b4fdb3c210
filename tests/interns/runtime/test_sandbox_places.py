"""Wherever the gateway is installed, its interns can be isolated."""

import os
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.isolation import tried
from interns.runtime.sandbox import SANDBOXES, _trial

SYSTEMS_TEMPORARY = Path("/tmp")  # noqa: S108 - The very folder that is hidden inside.


@pytest.fixture
def below_tmp() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=SYSTEMS_TEMPORARY) as folder:
        yield Path(folder)


def test_it_may_be_below_the_folder_for_temporary_files(
    below_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if SANDBOXES.look().is_none:
        pytest.skip("no sandbox works on this machine")
    # As an installer makes it; the gateway itself makes files for its owner only.
    before = os.umask(0o022)
    try:
        below_tmp.chmod(0o755)
        venv.create(below_tmp / "env", symlinks=True)
    finally:
        os.umask(before)
    name = next((below_tmp / "env" / "bin").glob("python3")).name
    monkeypatch.setattr(sys, "prefix", str(below_tmp / "env"))
    monkeypatch.setattr(sys, "executable", str(below_tmp / "env" / "bin" / name))

    found = tried(_trial)

    assert not found.is_none, found.reason
