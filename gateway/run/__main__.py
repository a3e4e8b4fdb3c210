"""`python -m gateway.run`, which is what `make run` becomes."""

import argparse
import sys

from gateway.run.plan import ODD_SETTING, CannotStart, check_settings, listen, make_plan, take_home
from gateway.run.signals import Parent
from gateway.run.supervisor import Supervisor, say


def main() -> int:
    """Run until stopped. 0 stopped, 1 a process kept dying, 2 refused to start."""
    parser = argparse.ArgumentParser(prog="gateway.run", description="Run everything.")
    parser.add_argument("--parent-pid", type=int, help="stop when this parent process leaves")
    parent = Parent(parser.parse_args().parent_pid)
    try:
        check_settings()
        from gateway import settings

        home_lock = take_home(settings.GATEWAY_HOME)
        listener = listen(settings.HOST, settings.PORT)
    except CannotStart as refusal:
        say(str(refusal))
        return ODD_SETTING
    with home_lock, listener:
        return Supervisor(make_plan(listener.getsockname()[1]), listener, parent).run()


if __name__ == "__main__":
    sys.exit(main())
