#!/usr/bin/env python
"""Command line of the gateway: `manage.py help` lists the commands."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    from django.core.management import execute_from_command_line

    from gateway.env import SUPERVISED, SettingError
    from gateway.home import run_in_progress

    # A job told to a broker of nobody's would wait until somebody looks for lost ones.
    if not (os.environ.get("REDIS_URL") or os.environ.get(SUPERVISED)) and (
        url := run_in_progress().get("broker_url")
    ):
        os.environ["REDIS_URL"] = url
    try:
        execute_from_command_line(sys.argv)
    except SettingError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
