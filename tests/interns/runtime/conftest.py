"""A bench for each driver. Homes are short, as an operator's is."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pytest

from gateway.sandbox import host_users
from routing.simulator.testing import SimulatedUpstream

if TYPE_CHECKING:
    from interns.runtime.driver import Driver
    from tests.interns.runtime.bench import Bench


@pytest.fixture
def runtime_home(settings: Any) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="h"))
    settings.GATEWAY_HOME = home
    yield home
    shutil.rmtree(home)


def make_driver(kind: str, settings: Any, monkeypatch: pytest.MonkeyPatch, home: Path) -> "Driver":
    """A driver, by the name of its kind."""
    from interns.runtime.process import ProcessDriver
    from interns.runtime.sandbox import SANDBOXES
    from tests.support.scripted_driver import FOLDER, ScriptedDriver

    if kind == "scripted":
        monkeypatch.setenv(FOLDER, str(home / "runtimes"))
        # It has no chat, and nothing here asks it for one.
        return cast("Driver", ScriptedDriver())
    settings.INTERN_SANDBOX = "off" if kind == "plain" else "required"
    if kind == "plain":
        monkeypatch.setattr(host_users, "is_root", lambda: False)
    if kind == "sandboxed" and SANDBOXES.look().is_none:
        pytest.skip(f"no sandbox here: {SANDBOXES.look().reason}")
    return ProcessDriver()


@pytest.fixture
def bench(
    request: pytest.FixtureRequest,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    runtime_home: Path,
    simulator: SimulatedUpstream,
) -> Iterator["Bench"]:
    """`indirect` names the kind of driver: `plain`, `sandboxed` or `scripted`."""
    from tests.interns.runtime.bench import Bench

    kind = getattr(request, "param", "plain")
    driver = make_driver(kind, settings, monkeypatch, runtime_home)
    bench = Bench(driver, simulator, f"intern-{uuid4().hex}")
    yield bench
    bench.clear()
