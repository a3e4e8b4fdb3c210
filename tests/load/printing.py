"""What the processes that `tests.load.apart` starts have in common."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any


def print_measured(
    measured: Callable[[int, float], Sequence[Any]], argv: Sequence[str] | None = None
) -> None:
    """Measure `--rounds` of `--seconds` under the gateway's settings and print them as JSON."""
    import django

    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    asked = parser.parse_args(argv)
    # Whoever starts this need not know of it: the bench itself has no settings.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    django.setup()
    found = measured(asked.rounds, asked.seconds)
    sys.stdout.write(json.dumps([asdict(one) for one in found]) + "\n")
