"""create_operator: somebody who may open the admin and see every account."""

import getpass
import sys
from typing import Any

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser
from django.db import transaction

from accounts.models import User
from accounts.services.records import command_actor, record_change
from console.sign_in_links import LIFETIME_S, build_link_path
from gateway.commands import JsonCommand, Misused, Refused
from gateway.home import run_in_progress


class Command(JsonCommand):
    help = "Make an operator. Asks for a password, or prints a link that signs in once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", required=True, help="user name")
        parser.add_argument("--email", default="", help="e-mail address")
        parser.add_argument(
            "--link", action="store_true", help="no password, but a link that signs in once"
        )

    def run(self, **options: Any) -> tuple[dict[str, Any], int]:
        name = options["user"]
        if User.objects.filter(username__iexact=name).exists():
            raise Refused(f"There is a user {name!r} already")
        password = None if options["link"] else _ask_password(name)
        with transaction.atomic():
            user = User.objects.create_superuser(name, options["email"], password)
            record_change(
                by=command_actor("create_operator"),
                action="created",
                object_type="user",
                object_id=user.pk,
                account_id=None,
                before=None,
                after={"username": name, "is_staff": True},
            )
        answer: dict[str, Any] = {"user": name, "user_id": user.public_id}
        if password is None:
            path = build_link_path(user)
            root_url = run_in_progress().get("root_url") or settings.PUBLIC_URL
            answer |= {"path": path, "url": root_url and root_url + path}
            answer["expires_in_s"] = LIFETIME_S
        return answer, 0


def _ask_password(name: str) -> str:
    """From the terminal twice, or the first line of what is piped in."""
    if sys.stdin.isatty():
        password = getpass.getpass(f"Password of {name}: ")
        if password != getpass.getpass("The same again: "):
            raise Misused("The two passwords differ")
    else:
        password = sys.stdin.readline().rstrip("\n")
    try:
        validate_password(password, User(username=name))
    except ValidationError as error:
        raise Misused(" ".join(error.messages)) from error
    return password
