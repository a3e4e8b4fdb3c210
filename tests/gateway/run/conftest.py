from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bed import Bed
from tests.support.running import Run, StartRun, put_database


@pytest.fixture
def start_run(tmp_path: Path, stores: Bed) -> Iterator[StartRun]:
    """`make run` with these settings in a home of its own; nothing of it outlives the test."""
    runs: list[Run] = []

    def start(*, home: Path | None = None, command: list[str] | None = None, **env: str) -> Run:
        place = home or tmp_path / "home"
        if command is None and "DATABASE_URL" not in env:
            put_database(place, stores.migrated_file())
        run = Run(place, env, command=command)
        runs.append(run)
        return run

    yield start
    for run in runs:
        run.clean_up()
