"""What a migration does to the version before it, which goes on serving while it is applied.

A rolling upgrade migrates first and replaces processes then (expand), and drops what nobody reads
any more in a later version (contract). What is found here is a reason to think, not a proof: a
migration that is sound all the same says why, in a comment that `PERMISSION` matches.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from django.db.migrations import Migration, operations
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import NOT_PROVIDED

PERMISSION: Final = re.compile(r"^\s*# Safe beside the former version: \S.*\.$", re.MULTILINE)
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
    elif isinstance(operation, _SCANS):
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
