"""The command line of an installed gateway: `routing-gateway run`, `manage ...`, or the name of one
process. `manage.py` of a checkout is its second command."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from gateway.run.plan import ODD_SETTING


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a process takes the place of this one. 0 done, 1 failed, 2 odd usage."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    from gateway.run.commands import PROCESSES

    parser = argparse.ArgumentParser(
        prog="routing-gateway", description="A gateway in front of model providers."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, help: str, carry_out: Callable[[list[str]], int]) -> None:
        command = commands.add_parser(name, help=help, add_help=False)
        command.set_defaults(carry_out=carry_out)

    add("run", "start everything in the foreground, with simulated providers", _run)
    add("manage", "a command of an operator; `manage help` lists them", manage)
    add("health", "exit 0 if the web process of a URL answers", _ask_health)
    for name, process in PROCESSES.items():
        add(name, process.help, lambda rest, name=name: _become(name, rest))  # type: ignore[misc]  # The default binds it.
    # What follows is the command's own.
    chosen = parser.parse_args(words[:1])
    status: int = chosen.carry_out(words[1:])
    return status


def manage(arguments: Sequence[str]) -> int:
    """A management command, as Django runs it."""
    from django.core.management import execute_from_command_line

    from gateway import env
    from gateway.home import run_in_progress

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    try:
        # A job that nobody's broker takes would wait until somebody looks for lost ones.
        if not (env.text("REDIS_URL") or os.environ.get(env.SUPERVISED)) and (
            url := run_in_progress().get("broker_url")
        ):
            os.environ["REDIS_URL"] = url
        execute_from_command_line(["manage.py", *arguments])
    except env.SettingError as error:
        sys.stderr.write(f"{error}\n")
        return ODD_SETTING
    return 0


def _run(arguments: list[str]) -> int:
    from gateway.run.__main__ import main as run_everything

    return run_everything(arguments)


def _become(name: str, arguments: list[str]) -> int:
    """The process of that name in this one's place, so that signals reach it; `arguments` are
    added to its own."""
    from gateway.env import SettingError
    from gateway.run.commands import PROCESSES

    try:
        command = [*PROCESSES[name].build(), *arguments]
        os.execv(command[0], command)  # noqa: S606 - Our own command, without a shell.
    except SettingError as error:
        sys.stderr.write(f"{error}\n")
    return ODD_SETTING


def _ask_health(arguments: list[str]) -> int:
    from gateway.run.ready import answers

    parser = argparse.ArgumentParser(prog="routing-gateway health")
    own = f"http://127.0.0.1:{os.environ.get('PORT') or 8000}"
    parser.add_argument("url", nargs="?", default=own, help=f"of the gateway's root; {own}")
    return 0 if answers(parser.parse_args(arguments).url, "/healthz") else 1
