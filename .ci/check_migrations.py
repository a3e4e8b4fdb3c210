"""Refuses migrations that the version before them could not serve beside, or that hold a table."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

PROJECT = Path(__file__).resolve().parents[1]
# Up to these numbers nobody has had an earlier version to roll from: they are of 0.1.0.
FIRST_VERSION: Final = {"accounts": 40, "console": 0, "interns": 4, "routing": 30}


def main() -> int:
    with tempfile.TemporaryDirectory() as home:
        os.environ["GATEWAY_HOME"] = home
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
        sys.path.insert(0, str(PROJECT))
        found = find_all()
    for line in found:
        sys.stderr.write(f"{line}\n")
    return 1 if found else 0


def find_all() -> list[str]:
    import django

    django.setup()
    from django.db.migrations.loader import MigrationLoader

    from gateway.management.commands.downgrade_check import PERMISSION, find_hazards

    loader = MigrationLoader(None)
    found = []
    for (app, name), migration in sorted(loader.disk_migrations.items()):
        number = int(name[:4]) if name[:4].isdigit() else 0
        if app not in FIRST_VERSION or number <= FIRST_VERSION[app]:
            continue
        text = (PROJECT / app / "migrations" / f"{name}.py").read_text(encoding="utf-8")
        if not PERMISSION.search(text):
            before = loader.project_state((app, name), at_end=False)
            found += [f"{app}.{name}: {each}" for each in find_hazards(migration, before)]
    return found


if __name__ == "__main__":
    sys.exit(main())
