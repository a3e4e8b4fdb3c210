"""`make bench`: measure the request path against its ceiling and print a table.

Figures that miss what they should reach are shown, not punished. Exit status 1: the books do not
agree after the run, the load broke, or `--compare` found a ratio worse by more than a tenth.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.load import conditions
from tests.load.accounting import PROC, ProcessReplaced
from tests.load.books import Books, closed_books
from tests.load.database import server_version
from tests.load.generators import Generator, LoadFailed, find
from tests.load.measures import Measures
from tests.load.plan import BRIEF, FULL, PARTS, QUICK, Plan
from tests.load.report import differences, ratios, regressions, table
from tests.load.samples import Samples
from tests.load.stand import WEB_WORKERS, Stand
from tests.load.starting import NoStart, second_starts_s


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, write; returns the exit status."""
    asked = _parser().parse_args(argv)
    if not (PROC / "self" / "stat").exists():
        sys.stderr.write("bench: CPU and memory are read from /proc, so this needs Linux\n")
        return 2
    try:
        before = _earlier(asked.compare) if asked.compare else None
    except ValueError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 2
    parts = [asked.only] if asked.only else PARTS
    plan = QUICK if asked.quick else BRIEF if asked.only else FULL
    try:
        document, shown = _run(find(), plan=plan, parts=parts, quick=plan is not FULL)
    except (LoadFailed, ProcessReplaced) as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    sys.stdout.write(f"\n{shown}\n")
    # One part alone is no run to be kept under the day's name.
    day = None if asked.only else Path(f"bench-{datetime.now(UTC):%Y-%m-%d}.json")
    if out := asked.out or day:
        out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        sys.stdout.write(f"Written to {out}\n")
    agrees = Books(**document["books"]).tell()
    worse = before is not None and _tell_comparison(before, document)
    return 0 if agrees and not worse else 1


def _earlier(file: Path) -> dict[str, Any]:
    """The document of an earlier run. Raises ValueError when it holds nothing to compare with."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"--compare: {file}: {error}") from error
    if not (isinstance(document, dict) and ratios(document)):
        raise ValueError(f"--compare: {file} holds no ratio of an earlier run")
    return document


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Measure the request path.")
    parser.add_argument("--quick", action="store_true", help="short intervals: a try, no figures")
    parser.add_argument("--only", choices=PARTS, help="one part, in about a minute")
    parser.add_argument("--out", type=Path, help="the JSON file (default: bench-<date>.json)")
    parser.add_argument("--compare", type=Path, help="fail where a ratio of this run is worse")
    return parser


def _run(
    generator: Generator, *, plan: Plan, parts: Sequence[str], quick: bool
) -> tuple[dict[str, Any], str]:
    """The document of a run and its table. Raises `LoadFailed` and `ProcessReplaced`."""
    conditions.confine(conditions.CORES)
    began = conditions.machine()
    with Stand() as stand:
        if generator.is_bundled:
            stand.warn("wrk is not installed: the bundled generator competes for the same cores")
        measures = Measures(stand, generator, plan, _say)
        found = _measured(measures, parts)
        books = closed_books(stand, answered=measures.answered)
        postgresql = server_version(stand.postgres)
    if "start" in parts:
        found |= _starts(plan.second_starts)
    samples = Samples(**found)
    lines = samples.figures()
    document = {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "conditions": began
        | {
            "quick": quick,
            "parts": list(parts),
            "plan": asdict(plan),
            "web_workers": WEB_WORKERS,
            "postgresql": postgresql,
            "load_generator": generator.name,
            "upstream": stand.upstream,
            "stream_upstream": "simulated upstream",
        },
        "warnings": stand.warnings,
        "figures": {line.required.name: line.as_json() for line in lines},
        "books": asdict(books),
        "samples": samples.as_json(),
    }
    return document, table(lines)


def _measured(measures: Measures, parts: Sequence[str]) -> dict[str, Any]:
    """The samples by part. Idle memory comes before any load, so that part warms up itself."""
    if "memory" not in parts:
        measures.warm_up()
    return {part: getattr(measures, part)() for part in parts if part != "start"}


def _starts(count: int) -> dict[str, Any]:
    """Seconds of each start, or why there are none."""
    _say("second start of make run")
    try:
        return {"starts_s": second_starts_s(count)}
    except NoStart as error:
        return {"no_start": str(error)}


def _say(what: str) -> None:
    sys.stderr.write(f"bench: {what}\n")


def _tell_comparison(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Say what is worse; whether anything is."""
    for line in differences(before, now):
        _say(f"compared under other conditions: {line}")
    worse = regressions(before, now)
    for line in worse:
        _say(f"worse by more than a tenth: {line}")
    return bool(worse)


if __name__ == "__main__":
    # So that SIGTERM takes down what was started, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
