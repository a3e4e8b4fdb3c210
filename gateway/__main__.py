"""`python -m gateway`, which is the console script `routing-gateway` too."""

import sys

from gateway.command_line import main

if __name__ == "__main__":
    sys.exit(main())
