"""Load providers, models and endpoints from a file."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gateway.commands import JsonCommand
from gateway.http.jsonio import JsonObject
from routing.catalogue.files import DocumentError, parse
from routing.catalogue.load import load_catalogue, rejection_report, wait_until_served

_HELP = """
Load a catalogue file (YAML or JSON; - reads standard input).

Everything is checked first; with one error nothing is written. Then the rows are brought to what
the file says in one transaction, and running servers serve it within two seconds. Names the file
does not mention stay as they are, or are disabled with --prune.

Credentials: `credential: env:NAME` is read from the environment now and stored encrypted, other
text is stored as it stands, `credential: null` removes what is stored. A provider without the key
keeps what it has, so the output of dump_catalogue, which never shows credentials, loads back
unchanged.

Prices: `pricing: auto` takes today's price from the offline price book. An endpoint without a price
loads, but is never called; it is listed under warnings.
"""


class Command(JsonCommand):
    help = _HELP

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: object) -> Any:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        return parser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", help="catalogue file, or - for standard input")
        parser.add_argument("--check", action="store_true", help="say what would change and stop")
        parser.add_argument("--prune", action="store_true", help="disable what the file leaves out")
        parser.add_argument(
            "--wait", action="store_true", help="return when every web process serves the result"
        )

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        file = options["file"]
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
            document = parse(text)
        except (OSError, UnicodeDecodeError, DocumentError) as error:
            result = rejection_report(f"{file}: {error}")
        else:
            result = load_catalogue(document, prune=options["prune"], check=options["check"])
        for line in (*result["errors"], *(f"warning: {line}" for line in result["warnings"])):
            self.stderr.write(line)
        if result["errors"]:
            return result, 1
        if options["wait"] and not options["check"] and not wait_until_served(result["version"]):
            self.stderr.write(f"version {result['version']} is not served everywhere yet")
            return result, 1
        return result, 0

    def lines(self, result: JsonObject) -> Iterable[str]:
        for verb in ("added", "changed", "disabled"):
            yield from (f"{verb} {name}" for name in result[verb])
        if result["errors"]:
            yield "nothing was written"
            return
        yield f"{len(result['unchanged'])} unchanged; catalogue version {result['version']}"
