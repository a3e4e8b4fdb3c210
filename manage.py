#!/usr/bin/env python
"""Command line of the gateway: `manage.py help` lists the commands."""

import sys

from gateway.command_line import manage

if __name__ == "__main__":
    sys.exit(manage(sys.argv[1:]))
