"""`make bench`: measure the request path against its ceiling and print a table.

Figures that miss what they should reach are shown, not punished. Exit status 1: the books do not
agree after the run, the load broke, or `--compare` found a ratio worse by more than a tenth.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.load.accounting import ProcessReplaced, check_system, confined_machine
from tests.load.books import Books, closed_books, read_row
from tests.load.figures import Figure, differences, ratios, regressions, table
from tests.load.generators import find
from tests.load.measures import Measures
from tests.load.plan import BRIEF, FULL, PARTS, QUICK, Plan
from tests.load.samples import Samples
from tests.load.stand import WEB_WORKERS, Stand
from tests.load.targets import LoadFailed
from tests.support.manage import PROJECT
from tests.support.running import Run


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, write; returns the exit status."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure the request path.")
    parser.add_argument("--quick", action="store_true", help="short intervals: a try, no figures")
    parser.add_argument("--only", choices=PARTS, help="one part, in about a minute")
    parser.add_argument("--out", type=Path, help="the JSON file (default: bench-<date>.json)")
    parser.add_argument("--compare", type=Path, help="fail where a ratio of this run is worse")
    asked = parser.parse_args(argv)
    try:
        check_system()
        before = _earlier(asked.compare) if asked.compare else None
    except ValueError as error:
        _say(str(error))
        return 2
    parts = [asked.only] if asked.only else PARTS
    plan = QUICK if asked.quick else BRIEF if asked.only else FULL
    try:
        document, shown = _run(plan, parts, quick=plan is not FULL)
    except (LoadFailed, ProcessReplaced) as error:
        _say(str(error))
        return 1
    sys.stdout.write(f"\n{shown}\n")
    # One part alone is no run to be kept under the day's name.
    day = None if asked.only else Path(f"bench-{datetime.now(UTC):%Y-%m-%d}.json")
    if out := asked.out or day:
        out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        sys.stdout.write(f"Written to {out}\n")
    agrees = Books(**document["books"]).tell()
    worse = regressions(before, document) if before else []
    for line in differences(before, document) if before else []:
        _say(f"compared under other conditions: {line}")
    for line in worse:
        _say(f"worse by more than a tenth: {line}")
    return 0 if agrees and not worse else 1


def _earlier(file: Path) -> dict[str, Any]:
    """An earlier run's document. Raises ValueError where there is nothing to compare with."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"--compare: {file}: {error}") from error
    if not (isinstance(document, dict) and ratios(document)):
        raise ValueError(f"--compare: {file} holds no ratio of an earlier run")
    return document


def _run(plan: Plan, parts: Sequence[str], *, quick: bool) -> tuple[dict[str, Any], str]:
    """The document of a run and its table. Raises `LoadFailed` and `ProcessReplaced`."""
    began = confined_machine()
    with Stand(find()) as stand:
        measures = Measures(stand, plan, _say)
        # Idle memory comes before any load, so that part warms up itself.
        if "memory" not in parts:
            measures.warm_up()
        found = {part: getattr(measures, part)() for part in parts if part != "start"}
        books = closed_books(stand, answered=measures.answered)
        postgresql = read_row(stand.postgres, "SHOW server_version")[0].split()[0]
    if "start" in parts:
        _say("second start of make run")
        found |= _second_starts(plan.second_starts)
    samples = Samples(**found)
    lines = samples.figures()
    asked = {"quick": quick, "parts": list(parts), "plan": vars(plan), "postgresql": postgresql}
    document = document_of(stand, began | asked, lines, books)
    return document | {"samples": asdict(samples)}, table(lines)


def document_of(
    stand: Stand, under: dict[str, Any], figures: Sequence[Figure], books: Books
) -> dict[str, Any]:
    """The document of a run of either bench, without its samples."""
    load = {"load_generator": stand.generator.name, "upstream": stand.upstream}
    workers = {"web_workers": WEB_WORKERS, "stream_upstream": "simulated upstream"}
    return {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "conditions": {**load, **workers, **under},
        "warnings": stand.warnings,
        "figures": {line.required.name: line.as_json() for line in figures},
        "books": asdict(books),
    }


def _second_starts(count: int) -> dict[str, Any]:
    """From `make run` to ready, when everything was prepared once before; or why there is none."""
    if not (PROJECT / ".venv" / "bin" / "python").exists():
        return {"no_start": "skipped: there is no .venv"}
    starts_s = []
    # A short path: Valkey's socket is in it.
    with tempfile.TemporaryDirectory(prefix="gateway-start-") as folder:
        for _ in range(count + 1):
            run = Run(Path(folder) / "home", {})
            try:
                run.ready()
                starts_s.append(time.monotonic() - run.started_at)
                run.stop()
            except (AssertionError, TimeoutError) as error:
                # How `Run` tells that its process ended or dawdled. The rest stands without this.
                sys.stderr.write(f"{error}\n")
                return {"no_start": "failed: make run did not come up"}
            finally:
                run.clean_up()
    return {"starts_s": starts_s[1:]}


def _say(what: str) -> None:
    sys.stderr.write(f"bench: {what}\n")


if __name__ == "__main__":
    # So that SIGTERM takes down what was started, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
