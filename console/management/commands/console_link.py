"""console_link: a link that signs a person in to the console once."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from accounts.models import User
from console.sign_in_links import LIFETIME_S, build_link_path
from gateway.commands import JsonCommand, Refused
from gateway.home import run_in_progress


class Command(JsonCommand):
    help = "Print a link that signs a person in to the console, once and within an hour."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", required=True, help="username of the person")

    def run(self, **options: Any) -> tuple[dict[str, Any], int]:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise Refused(f"No active user is named {options['user']!r}")
        path = build_link_path(user)
        root_url = run_in_progress().get("root_url") or settings.PUBLIC_URL
        answer = {"path": path, "url": root_url and root_url + path, "expires_in_s": LIFETIME_S}
        return answer, 0
