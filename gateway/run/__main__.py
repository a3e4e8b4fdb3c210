"""`python -m gateway.run`, which is what `make run` becomes."""

import argparse
import logging.config
import sys
from collections.abc import Sequence

from gateway.logs.setup import build_config
from gateway.run.plan import ODD_SETTING, CannotStart, check_settings, listen, make_plan, take_home
from gateway.run.signals import Parent
from gateway.run.supervisor import Supervisor


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until stopped. 0 stopped, 1 a process kept dying, 2 refused to start."""
    parser = argparse.ArgumentParser(prog="gateway.run", description="Run everything.")
    parser.add_argument("--parent-pid", type=int, help="stop when this parent process leaves")
    parent = Parent(parser.parse_args(arguments).parent_pid)
    try:
        check_settings()
        from gateway import settings

        home_lock = take_home(settings.GATEWAY_HOME)
        listener = listen(settings.HOST, settings.PORT)
    except CannotStart as refusal:
        sys.stderr.write(f"gateway: {refusal}\n")
        return ODD_SETTING
    config = {"format": settings.LOG_FORMAT, "level": settings.LOG_LEVEL}
    logging.config.dictConfig(build_config(**config, text="gateway: {message}"))
    with home_lock, listener:
        return Supervisor(make_plan(listener.getsockname()[1]), listener, parent).run()


if __name__ == "__main__":
    sys.exit(main())
