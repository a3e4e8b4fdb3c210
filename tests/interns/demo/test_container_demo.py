"""The demo with interns in containers: the image's own agent, behind the whole gateway."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interns.demo.test_demo import test_the_demo_from_the_first_boot_to_the_archive as demo
from tests.support import podman
from tests.support.running import SUPERVISOR, Run

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(podman.why_not()), reason=f"no engine: {podman.why_not()}"),
]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    engine = podman.Podman(Path(tempfile.mkdtemp(prefix="p")))
    try:
        engine.start()
        engine.load_base()
        settings = {
            "INTERN_RUNTIME": "container",
            "INTERN_CONTAINER_HOST": engine.url,
            "INTERN_CONTAINER_BASE": podman.BASE,
            "INTERN_FETCH_PRIVATE_HOSTS": "127.0.0.1",
        }
        run = Run(tmp_path / "home", settings, command=SUPERVISOR)
        yield run
        run.clean_up()
    finally:
        engine.stop()


def test_the_demo_in_a_container(run: Run) -> None:
    demo(run)
