"""simulate_upstream: the simulated providers alone."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from routing.simulator import main


class Command(BaseCommand):
    help = (
        "Run the simulated upstream: an OpenAI-style server on loopback with named faults. It "
        "prints one JSON line with its URL once it listens and runs until it is told to stop."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", default="0", help="port to listen on; 0 picks one")
        parser.add_argument("--seed", help="makes answers and errors repeatable")
        parser.add_argument("--port-file", help="also write the port into this file")
        parser.add_argument("--parent-pid", help="end when that process does")
        parser.add_argument("--faults", action="store_true", help="list the fault names and end")
        parser.add_argument("--json", action="store_true", help="list them as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        given = ["--host", options["host"], "--port", options["port"]]
        for name in ("seed", "port_file", "parent_pid"):
            if options[name] is not None:
                given += [f"--{name.replace('_', '-')}", options[name]]
        given += [f"--{name}" for name in ("faults", "json") if options[name]]
        sys.exit(main(given))
