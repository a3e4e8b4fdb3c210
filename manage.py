#!/usr/bin/env python
"""Command line of the gateway: `manage.py help` lists the commands."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    from django.core.management import execute_from_command_line

    from gateway.env import SettingError

    try:
        execute_from_command_line(sys.argv)
    except SettingError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
