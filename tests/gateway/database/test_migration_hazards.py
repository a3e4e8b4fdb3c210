"""Which migrations the version before them cannot serve beside, and how far a downgrade goes."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import migrations, models
from django.db.migrations.state import ProjectState

from gateway.commands import Misused
from gateway.database.migrations_support import AddIndexConcurrently
from gateway.management.commands.downgrade_check import PERMISSION, find_hazards, find_losses
from tests.support.manage import PROJECT

MODEL = migrations.CreateModel(
    "Hold",
    [("id", models.BigAutoField(primary_key=True)), ("note", models.CharField(max_length=9))],
)


def add(field: Any) -> Any:
    return migrations.AddField("hold", "new", field)


def alter(field: Any) -> Any:
    return migrations.AlterField("hold", "note", field)


HAZARDS: list[tuple[Any, str]] = [
    (add(models.IntegerField(null=True)), ""),
    (add(models.IntegerField(default=0, db_default=0)), ""),
    (add(models.IntegerField(default=0)), "give it a db_default"),
    (add(models.IntegerField(null=True, db_index=True)), "while its index is made"),
    (migrations.RemoveField("hold", "note"), "still reads and writes it"),
    (migrations.RenameField("hold", "note", "text"), "still reads and writes it"),
    (migrations.DeleteModel("hold"), "still reads and writes it"),
    (alter(models.CharField(max_length=20, help_text="Longer.")), ""),
    (alter(models.CharField(max_length=5)), "max_length changes"),
    (alter(models.TextField()), "type changes"),
    (migrations.AddIndex("hold", models.Index(fields=["note"], name="i")), "every row is read"),
    (AddIndexConcurrently("hold", models.Index(fields=["note"], name="i")), ""),
    (migrations.RunSQL("SELECT 1"), "cannot be undone"),
    (migrations.RunSQL("SELECT 1", "SELECT 1"), "nobody can tell what it locks"),
]


def build_migration(*operations: Any) -> migrations.Migration:
    made = type("More", (migrations.Migration,), {"operations": list(operations)})
    migration: migrations.Migration = made("0002_more", "accounts")
    return migration


@pytest.mark.parametrize(("operation", "hazard"), HAZARDS, ids=str)
def test_what_hinders_the_version_before(operation: Any, hazard: str) -> None:
    state = ProjectState()
    MODEL.state_forwards("accounts", state)

    found = find_hazards(build_migration(operation), state)

    assert bool(found) == bool(hazard)
    assert hazard in "; ".join(found)


def test_a_table_of_the_same_migration_is_nobodys_yet() -> None:
    index = migrations.AddIndex("hold", models.Index(fields=["note"], name="i"))
    later = build_migration(MODEL, index)

    assert find_hazards(later, ProjectState()) == []
    assert find_losses(later) == ["the table of Hold goes with its rows"]


def test_a_permission_needs_its_reason() -> None:
    assert PERMISSION.search("x\n    # Safe beside the former version: the table is empty.\n")
    assert not PERMISSION.search("# Safe beside the former version:\n")


@pytest.mark.django_db
def test_a_downgrade_says_what_must_be_undone(tmp_path: Path) -> None:
    for app in ("accounts", "interns", "routing"):
        shutil.copytree(PROJECT / app / "migrations", tmp_path / app / "migrations")

    assert check_downgrade(tmp_path) == (0, {"can_serve": True, "newer": [], "undo": []})
    # One of these drops what the version of before writes.
    for file in (tmp_path / "routing" / "migrations").glob("0*.py"):
        if file.name >= "0018":
            file.unlink()
    status, said = check_downgrade(tmp_path)

    assert (status, said["can_serve"]) == (1, False)
    assert said["undo"] == ["migrate routing 0017_failed_requests"]
    assert [each["migration"] for each in said["newer"]][-1] == "routing.0018_forgotten_before"
    (tmp_path / "interns" / "migrations" / "0004_partial_disk.py").unlink()
    partial = check_downgrade(tmp_path)[1]["newer"][-1]
    assert partial["hinders"] == []
    assert partial["first"] == ["boot interns with is_disk_partial, which it never clears."]
    with pytest.raises(Misused, match="neither a wheel nor a folder"):
        call_command("downgrade_check", "/nowhere")


def check_downgrade(former: Path) -> tuple[Any, dict[str, Any]]:
    """The exit status and the one object."""
    output, status = io.StringIO(), None
    try:
        call_command("downgrade_check", str(former), "--json", stdout=output)
    except SystemExit as end:
        status = end.code
    return status or 0, json.loads(output.getvalue())
