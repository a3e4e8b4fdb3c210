"""What several processes count, and what is left of it when they are gone."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.metrics import files
from gateway.metrics.files import LabelValues
from tests.support.manage import PROJECT

_COUNT = """
import sys, time
from gateway.metrics.families import Counter, Gauge, Histogram
counter = Counter("proof_total", "Counted.", "what")
live = Gauge("proof_live", "Lives.")
last = Gauge("proof_last", "Newest.", mode="mostrecent")
times = Histogram("proof_seconds", "Times.", buckets=(1.0, 2.0))
for number in range(3000):
    counter.add(2, f"kind {number % 1000}")
live.set(1)
last.set(float(sys.argv[1]))
times.observe(1.5)
print("counted", flush=True)
sys.stdin.readline()
"""
_SCRAPE = """
import sys
from gateway.metrics.scrape import renderer
text, kind = renderer.render(sys.argv[1])
print(kind)
print(text.decode())
"""


class Home:
    """A home in which processes count."""

    def __init__(self, folder: Path) -> None:
        self._env = {**os.environ, "GATEWAY_HOME": str(folder), "DATABASE_URL": "", "REDIS_URL": ""}
        self._env["DJANGO_SETTINGS_MODULE"] = "gateway.settings"
        self.files = folder / "run" / "metrics"

    def count(self, last: int) -> subprocess.Popen[str]:
        """A process that has counted and lives on."""
        process = subprocess.Popen(
            [sys.executable, "-c", _COUNT, str(last)],
            cwd=PROJECT,
            env=self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "counted\n"
        return process

    def scrape(self, accept: str = "") -> tuple[str, str]:
        told = subprocess.run(
            [sys.executable, "-c", _SCRAPE, accept],
            cwd=PROJECT,
            env=self._env,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        kind, _, text = told.partition("\n")
        return kind, text

    def begin_anew(self) -> None:
        code = "from gateway.metrics.files import begin_anew; begin_anew()"
        subprocess.run([sys.executable, "-c", code], cwd=PROJECT, env=self._env, check=True)

    def read(self) -> dict[str, float]:
        """Sums over labels, by the name of the sample."""
        sums: dict[str, float] = {}
        kind, text = self.scrape("text/plain")
        assert (kind.startswith("text/plain; version="), "# EOF" in text) == (True, False)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name + sample.labels.get("le", "")
                sums[name] = sums.get(name, 0) + sample.value
        return sums


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_totals_outlive_their_processes_and_what_lives_does_not(home: Home) -> None:
    first, second = home.count(1), home.count(2)
    whole = home.read()
    assert (whole["proof_total"], whole["proof_live"], whole["proof_last"]) == (12_000, 2, 2)
    assert (whole["proof_seconds_count"], whole["proof_seconds_bucket1.0"]) == (2, 0)
    openmetrics = "application/openmetrics-text; version=1.0.0"
    kind, text = home.scrape(openmetrics)
    assert (kind.startswith(openmetrics), text.strip().endswith("# EOF")) == (True, True)

    end(second)
    assert home.read() == {**whole, "proof_live": 1}
    end(first)
    last = home.read()

    del whole["proof_live"]
    assert last == whole
    assert {path.name for path in home.files.glob("*.db")} == {
        *("counter_dead.db", "histogram_dead.db", "gauge_mostrecent_dead.db")
    }


def test_a_new_run_begins_anew_once_nobody_counts_any_more(home: Home) -> None:
    first, second = home.count(1), home.count(2)
    (home.files / "model.values").write_text("of the former run\n")
    end(second)
    # As a process leaves it that was killed while it wrote.
    (home.files / "counter_1-1.db").write_bytes(b"\xff\x00\x00\x00\x00\x00\x00\x00rubbish")
    assert home.read()["proof_total"] == 12_000

    home.begin_anew()
    assert home.read()["proof_total"] == 12_000
    end(first)
    home.begin_anew()

    assert list(home.files.glob("*.db")) == []
    assert list(home.files.glob("*.values")) == []


def test_what_is_too_many_is_other_in_all_processes(settings: Any, tmp_path: Path) -> None:
    settings.GATEWAY_HOME = tmp_path
    files.folder.cache_clear()
    try:
        mine, theirs = LabelValues("model", most=3), LabelValues("model", most=3)

        assert [mine.limit(name) for name in ("a", "b", "line\nbreak")] == ["a", "b", "other"]
        assert [theirs.limit(name) for name in ("c", "d", "a")] == ["c", "other", "a"]
        assert [mine.limit(name) for name in ("d", "c")] == ["other", "c"]
    finally:
        files.folder.cache_clear()
