"""Which migrations the code has and which the database has had, without importing them."""

import pkgutil
from importlib.util import find_spec

from django.apps import apps
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

# App label and name, as in `accounts.0001_initial`.
Migration = tuple[str, str]


def list_shipped() -> set[Migration]:
    """The migrations of every installed app, by their files."""
    found = set()
    for app in apps.get_app_configs():
        # An app that is a single module has no place for migrations.
        is_package = hasattr(app.module, "__path__")
        package = find_spec(f"{app.name}.migrations") if is_package else None
        if package is not None and package.submodule_search_locations:
            for module in pkgutil.iter_modules(list(package.submodule_search_locations)):
                if module.name[0] not in "_~":
                    found.add((app.label, module.name))
    return found


def list_applied() -> set[Migration]:
    """Those the database has had; none where it is empty."""
    return set(MigrationRecorder(connection).applied_migrations())


def list_pending() -> list[Migration]:
    """What `migrate` would do."""
    return sorted(list_shipped() - list_applied())


def list_foreign() -> list[Migration]:
    """What a newer version, or another one, did to this database."""
    labels = {app.label for app in apps.get_app_configs()}
    return sorted(each for each in list_applied() - list_shipped() if each[0] in labels)
