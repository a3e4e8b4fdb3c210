"""downgrade_check: whether an earlier version can serve on the tables that there are.

A rolling upgrade migrates first and replaces processes then (expand), and drops what nobody reads
any more in a later version (contract). What is found here is a reason to think, not a proof. A
migration that is sound all the same says why, in a comment that `PERMISSION` matches. What is to be
done by hand before the earlier version serves stands in one that `REMINDER` matches.
"""

import inspect
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandParser
from django.db import connection
from django.db.migrations import Migration, operations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import NOT_PROVIDED

from gateway.commands import JsonCommand, Misused
from gateway.database.migrations_support import AddIndexConcurrently
from gateway.http.jsonio import JsonObject

_FILE: Final = re.compile(r"(?:.*/)?(\w+)/migrations/(\d{4}\w*)\.py")
PERMISSION: Final = re.compile(r"^\s*# Safe beside the former version: \S.*\.$", re.MULTILINE)
REMINDER: Final = re.compile(r"^\s*# Before the former version serves: (\S.*\.)$", re.MULTILINE)
# What only Python and pages read.
_HARMLESS: Final = frozenset(
    {"blank", "choices", "default", "editable", "help_text", "validators", "verbose_name"}
    | {"db_default", "on_delete", "related_name"}
)
_REMOVALS: Final = (
    *(operations.RemoveField, operations.DeleteModel, operations.RenameField),
    *(operations.RenameModel, operations.AlterModelTable),
)
_SCANS: Final = (operations.AddIndex, operations.AddConstraint, operations.AlterUniqueTogether)


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
            source = inspect.getsource(inspect.getmodule(type(migration)) or type(migration))
            steps.append(
                {
                    "migration": f"{app}.{name}",
                    "hinders": [] if PERMISSION.search(source) else hazards,
                    "first": REMINDER.findall(source),
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
            yield from (f"  first: {line}" for line in each["first"])
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


def find_hazards(migration: Migration, before: ProjectState) -> list[str]:
    """A sentence for each; `before` is the state that the migration finds."""
    state, made = before.clone(), set[str]()
    found: list[str] = []
    for operation in migration.operations:
        after = state.clone()
        operation.state_forwards(migration.app_label, after)
        for each in _flatten(operation):
            if isinstance(each, operations.CreateModel):
                made.add(each.name_lower)
            model = getattr(each, "model_name", "").lower()
            if model not in made:
                found += _find_hazards_of(each, migration.app_label, state, after)
        state = after
    return found


def find_losses(migration: Migration) -> list[str]:
    """What is gone when it is undone: tables and columns; or that it cannot be undone."""
    found = []
    for operation in migration.operations:
        for each in _flatten(operation):
            if isinstance(each, operations.CreateModel):
                found.append(f"the table of {each.name} goes with its rows")
            elif isinstance(each, operations.AddField):
                found.append(f"{each.model_name}.{each.name} goes with what it holds")
            elif not each.reversible:
                found.append(f"{type(each).__name__} cannot be undone")
    return found


def _flatten(operation: Operation) -> Iterator[Operation]:
    """What reaches the database."""
    if isinstance(operation, operations.SeparateDatabaseAndState):
        for each in operation.database_operations:
            yield from _flatten(each)
    else:
        yield operation


def _find_hazards_of(
    operation: Operation, app: str, before: ProjectState, after: ProjectState
) -> Iterator[str]:
    name = operation.describe()
    if isinstance(operation, _REMOVALS):
        yield f"{name}: the former version still reads and writes it"
    elif isinstance(operation, operations.AddField):
        field: Any = operation.field
        if not field.null and not field.many_to_many and field.db_default is NOT_PROVIDED:
            yield f"{name}: rows of the former version have no value; give it a db_default"
        if field.unique or field.db_index:
            yield f"{name}: writers wait while its index is made"
    elif isinstance(operation, operations.AlterField):
        key = (app, operation.model_name_lower)
        old = before.models[key].fields[operation.name]
        new = after.models[key].fields[operation.name]
        if odd := sorted(_list_changes(old, new)):
            what = ", ".join(odd)
            yield f"{name}: {what} changes under the former version, or rewrites the table"
    elif isinstance(operation, _SCANS) and not isinstance(operation, AddIndexConcurrently):
        yield f"{name}: writers wait while every row is read"
    elif isinstance(operation, (operations.RunSQL, operations.RunPython)):
        if not operation.reversible:
            yield f"{name}: it cannot be undone"
        yield f"{name}: nobody can tell what it locks and for how long"


def _list_changes(old: Any, new: Any) -> set[str]:
    """The options that differ and matter; wider and nullable are harmless."""
    _, old_path, _, was = old.deconstruct()
    _, new_path, _, becomes = new.deconstruct()
    changed = {key for key in was.keys() | becomes.keys() if was.get(key) != becomes.get(key)}
    if becomes.get("null"):
        changed.discard("null")
    if (becomes.get("max_length") or 0) >= (was.get("max_length") or 0):
        changed.discard("max_length")
    return changed - _HARMLESS | ({"type"} if old_path != new_path else set())
