"""`make bench-peers`: this gateway beside LiteLLM and Portkey's, on one upstream and one load.

Ours runs with keys, limits and ledger on, theirs off. Prints a table, writes JSON and the chart of
docs/explanation/benchmarks.md. Exit status 1: the books do not agree or a load broke; 2: nothing
was measured.
"""

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway.home import PROJECT, home
from tests.load.accounting import ProcessReplaced, check_system, confined_machine
from tests.load.bench import document_of
from tests.load.books import Books, closed_books
from tests.load.figures import table
from tests.load.generators import find
from tests.load.peers import installs
from tests.load.peers.chart import Panel, chart
from tests.load.peers.comparing import FULL, QUICK, ROWS, Comparing, servers_table
from tests.load.peers.servers import LITELLM, OURS, PORTKEY, start_servers
from tests.load.plan import Plan
from tests.load.stand import WEB_WORKERS, Stand
from tests.load.targets import LoadFailed

_CHART = PROJECT / "docs" / "benchmarks-peers.svg"
_CHARTED = ("cpu_us_per_request", "requests_per_s", "cpu_us_per_chunk")


def main(argv: Sequence[str] | None = None) -> int:
    """Install, run, print, write; returns the exit status."""
    parser = argparse.ArgumentParser(prog="bench-peers", description="Measure beside others.")
    parser.add_argument("--quick", action="store_true", help="short turns: a try, no figures")
    parser.add_argument("--out", type=Path, help="the JSON file (default: bench-peers-<date>.json)")
    parser.add_argument("--chart", type=Path, help="the SVG (default: the one in docs/)")
    asked = parser.parse_args(argv)
    try:
        check_system()
        installed = installs.install(home(), _say)
    except (ValueError, installs.InstallFailed) as error:
        _say(str(error))
        return 2
    try:
        document, shown = _run(installed, QUICK if asked.quick else FULL)
    except (LoadFailed, ProcessReplaced, TimeoutError) as error:
        _say(str(error))
        return 1
    out = asked.out or Path(f"bench-peers-{datetime.now(UTC):%Y-%m-%d}.json")
    out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"\n{shown}\nWritten to {out}\n")
    picture = asked.chart or (None if asked.quick else _CHART)
    if picture:
        picture.write_text(draw_chart(document), encoding="utf-8")
        sys.stdout.write(f"Drawn in {picture}\n")
    return 0 if Books(**document["books"]).tell() else 1


def _run(installed: installs.Installed, plan: Plan) -> tuple[dict[str, Any], str]:
    """The document of a run and its tables. Raises `LoadFailed` and `ProcessReplaced`."""
    began = confined_machine()
    with Stand(find(), with_ceiling=False) as stand:
        stand.pace_streams()
        _say("starting Portkey's gateway and LiteLLM")
        servers = start_servers(stand, installed)
        comparing = Comparing(servers, stand.generator, plan, _say)
        compared = comparing.run()
        books = closed_books(stand, answered=comparing.answered)
    figures, own = compared.figures(), {one.name: compared.own_figures(one.name) for one in servers}
    under = began | {
        "quick": plan is QUICK,
        "plan": vars(plan),
        "web_workers": {OURS: WEB_WORKERS, PORTKEY: 1, LITELLM: WEB_WORKERS},
        "versions": installs.versions(installed),
    }
    document = document_of(stand, under, figures, books)
    document |= {"servers": own, "samples": asdict(compared)}
    return document, f"{servers_table(own)}\n{table(figures)}"


def draw_chart(document: Mapping[str, Any]) -> str:
    """The chart of a run's document."""
    under, servers = document["conditions"], document["servers"]
    rows = {key: (heading, form) for key, heading, form, _ in ROWS}
    panels = [
        Panel(
            f"{rows[key][0]} ({'more' if key == 'requests_per_s' else 'less'} is better)",
            rows[key][1].replace(" us", " µs"),
            {name: figures[key] for name, figures in servers.items()},
        )
        for key in _CHARTED
    ]
    versions, workers = under["versions"], under["web_workers"][LITELLM]
    beside = f"{under['load_generator']} and {under['upstream']} beside"
    portkey = f"Portkey {versions[PORTKEY]['@portkey-ai/gateway']}, one process"
    notes = [
        "This gateway with keys, limits and a synced ledger in PostgreSQL; the others without.",
        f"{under['cores']} shared cores, {beside}; taking turns; {document['made_at'][:10]}.",
        f"LiteLLM {versions[LITELLM]['litellm']}, {workers} workers. "
        f"{portkey}, node {versions[PORTKEY]['node']}.",
    ]
    return chart("What a call costs on its way through", panels, marked=OURS, notes=notes)


def _say(what: str) -> None:
    sys.stderr.write(f"bench-peers: {what}\n")


if __name__ == "__main__":
    # So that SIGTERM takes down what was started, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
