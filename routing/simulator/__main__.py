"""`python -m routing.simulator`."""

import sys

from routing.simulator.cli import main

sys.exit(main())
