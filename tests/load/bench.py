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
from tests.load.plan import FULL, QUICK
from tests.load.report import differences, regressions, table
from tests.load.samples import Samples
from tests.load.stand import WEB_WORKERS, Stand
from tests.load.starting import NoStart, second_starts_s


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, write; returns the exit status."""
    asked = _parser().parse_args(argv)
    if not (PROC / "self" / "stat").exists():
        sys.stderr.write("bench: CPU and memory are read from /proc, so this needs Linux\n")
        return 2
    before = json.loads(asked.compare.read_text(encoding="utf-8")) if asked.compare else None
    # So that SIGTERM takes down what was started, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        document, shown = _run(find(), quick=asked.quick)
    except (LoadFailed, ProcessReplaced) as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    out = asked.out or Path(f"bench-{datetime.now(UTC):%Y-%m-%d}.json")
    out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"\n{shown}\nWritten to {out}\n")
    agrees = _tell_books(document["books"])
    worse = before is not None and _tell_comparison(before, document)
    return 0 if agrees and not worse else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Measure the request path.")
    parser.add_argument("--quick", action="store_true", help="short intervals: a try, no figures")
    parser.add_argument("--out", type=Path, help="the JSON file (default: bench-<date>.json)")
    parser.add_argument("--compare", type=Path, help="fail where a ratio of this run is worse")
    return parser


def _run(generator: Generator, *, quick: bool) -> tuple[dict[str, Any], str]:
    """The document of a run and its table. Raises `LoadFailed` and `ProcessReplaced`."""
    plan = QUICK if quick else FULL
    began = conditions.machine()
    with Stand() as stand:
        if generator.is_bundled:
            stand.warn("wrk is not installed: the bundled generator competes for the same cores")
        measures = Measures(stand, generator, plan, _say)
        memory, busy = measures.memory(), measures.busy()
        single, commits = measures.single(), measures.commits()
        streams = measures.streams()
        books = closed_books(stand, answered=measures.answered)
        postgresql = server_version(stand.postgres)
    samples = Samples(memory, busy, single, commits, streams, *_starts(plan.second_starts))
    lines = samples.figures()
    document = {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "conditions": began
        | {
            "quick": quick,
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


def _starts(count: int) -> tuple[list[float], str]:
    """Seconds of each start, or why there are none."""
    _say("second start of make run")
    try:
        return second_starts_s(count), ""
    except NoStart as error:
        return [], str(error)


def _say(what: str) -> None:
    sys.stderr.write(f"bench: {what}\n")


def _tell_books(books: dict[str, Any]) -> bool:
    """Say what the audit found; whether all is well."""
    problems = Books(**books).problems()
    for problem in problems:
        _say(problem)
    if not problems:
        sys.stdout.write(f"The books agree after {books['generations']} generations.\n")
    return not problems


def _tell_comparison(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Say what is worse; whether anything is."""
    for line in differences(before, now):
        _say(f"compared under other conditions: {line}")
    worse = regressions(before, now)
    for line in worse:
        _say(f"worse by more than a tenth: {line}")
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())
