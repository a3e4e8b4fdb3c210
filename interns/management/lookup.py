"""Interns by what people call them."""

from uuid import UUID

from django.conf import settings
from django.core.management.base import CommandParser

from gateway.commands import Refused
from gateway.home import run_in_progress, was_run
from interns.models import Intern


def add_intern_argument(parser: CommandParser) -> None:
    parser.add_argument("intern", help="id of the intern, its hostname, or ACCOUNT/NAME")


def require_worker() -> None:
    """Raises `Refused` where a worker would have to do it and none can hear of it. That is in the
    home of a run that has ended, whose queue ended with it."""
    if not settings.REDIS_URL and was_run() and not run_in_progress():
        raise Refused(
            "No worker would hear of it: start the gateway first, or name its broker in REDIS_URL"
        )


def find_intern(text: str) -> Intern:
    """Raises `Refused` where there is none, or more than one."""
    rows = Intern.objects.select_related("workspace__account", "creator")
    account, slash, name = text.partition("/")
    if slash:
        found = list(rows.filter(workspace__account__name=account, name=name)[:2])
    else:
        try:
            found = list(rows.filter(pk=UUID(text)))
        except ValueError:
            found = list(rows.filter(hostname=text.lower()))
    if len(found) > 1:
        raise Refused(f"There are several interns {text!r}: name one by its id")
    if not found:
        raise Refused(f"There is no intern {text!r}")
    return found[0]
