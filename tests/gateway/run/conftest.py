from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running import Run, StartRun


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[StartRun]:
    """`make run` with these settings in a home of its own; nothing of it outlives the test."""
    runs: list[Run] = []

    def start(*, home: Path | None = None, command: list[str] | None = None, **env: str) -> Run:
        run = Run(home or tmp_path / "home", env, command=command)
        runs.append(run)
        return run

    yield start
    for run in runs:
        run.clean_up()
