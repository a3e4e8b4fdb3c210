"""downgrade_check: whether an earlier version can serve on the tables that there are."""

import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandParser
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from gateway.commands import JsonCommand, Misused
from gateway.database.migration_hazards import PERMISSION, find_hazards, find_losses
from gateway.http.jsonio import JsonObject

_FILE: Final = re.compile(r"(?:.*/)?(\w+)/migrations/(\d{4}\w*)\.py")


class Command(JsonCommand):
    help = (
        "Say whether an earlier version can serve on this database as it is, and if not, which "
        "migrations must be undone first, with this version's code, and what is lost with them. "
        "FORMER is that version's wheel or checkout. Ends with 1 where something must be undone."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("former", type=Path, help="wheel or folder of the earlier version")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        known = _list_migrations(options["former"])
        loader = MigrationLoader(connection)
        own = {app for app, _ in known}
        newer = [
            (key, migration)
            for key, migration in loader.disk_migrations.items()
            if key[0] in own and key not in known and key in loader.applied_migrations
        ]
        steps: list[JsonObject] = []
        for (app, name), migration in sorted(newer, reverse=True):
            hazards = find_hazards(migration, loader.project_state((app, name), at_end=False))
            is_permitted = PERMISSION.search(_read_source(migration))
            steps.append(
                {
                    "migration": f"{app}.{name}",
                    "hinders": [] if is_permitted else hazards,
                    "lost_if_undone": find_losses(migration),
                }
            )
        hindered = sorted(
            {each["migration"].partition(".")[0] for each in steps if each["hinders"]}
        )
        last = {app: max((n for a, n in known if a == app), default="zero") for app in hindered}
        result = {
            "can_serve": not hindered,
            "newer": steps,
            "undo": [f"migrate {app} {name}" for app, name in last.items()],
        }
        return result, 1 if hindered else 0

    def lines(self, result: JsonObject) -> Iterable[str]:
        for each in result["newer"]:
            is_harmless = not each["hinders"]
            yield each["migration"] + (": the former version serves with it" if is_harmless else "")
            yield from (f"  hinders: {line}" for line in each["hinders"])
            yield from (f"  lost if undone: {line}" for line in each["lost_if_undone"])
        if result["can_serve"]:
            yield "Install the former version; the tables may stay as they are."
        else:
            yield "Back up and stop the processes; then, with this version still installed:"
            yield from (f"  manage.py {line}" for line in result["undo"])


def _list_migrations(former: Path) -> set[tuple[str, str]]:
    """App label and name of each migration in a wheel or a folder. Raises `Misused`."""
    if former.is_dir():
        names = [str(path.relative_to(former)) for path in former.glob("*/migrations/*.py")]
    elif zipfile.is_zipfile(former):
        with zipfile.ZipFile(former) as wheel:
            names = wheel.namelist()
    else:
        raise Misused(f"{former} is neither a wheel nor a folder.")
    found = {match.groups() for name in names if (match := _FILE.fullmatch(name))}
    if not found:
        raise Misused(f"{former} has no migrations: is it a version of the gateway?")
    return {(str(app), str(name)) for app, name in found}


def _read_source(migration: object) -> str:
    import inspect

    return inspect.getsource(inspect.getmodule(type(migration)) or type(migration))
