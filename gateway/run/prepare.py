"""Makes the stores ready for a run, in one process, because starting Django takes the time.

Reads one line from stdin once the migrations are done: the simulated upstream's URL, or nothing.
Writes JSON lines to stdout: `{"waiting": REASON}` while the database cannot be reached, and at the
end `{"demo": {...}, "providers": [...]}`. The latter has the demo account's ids and secrets, and
the slugs of well-known providers whose key is in the environment.
"""

import hashlib
import io
import json
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import django
import yaml
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.checks.registry import registry
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor
from django.utils.module_loading import import_string

from gateway.home import home, write_private
from gateway.run.plan import ODD_SETTING

ACCOUNT = "demo"
WORKSPACE = "default"
CREDITS_USD = "5"
ADMIN = "admin"
_KEYS = ("api_key", "management_key")

Command = Callable[..., dict[str, Any]]


def demo_file() -> Path:
    return home() / "secrets" / "demo.json"


def seed_access(command: Command) -> dict[str, Any]:
    """Seed the account and the admin; `account_id`, `workspace_id`, both keys and the password.

    A key whose only copy is lost is made anew. `command` runs a manage.py command.
    """
    file = demo_file()
    kept: dict[str, Any] = {}
    with suppress(FileNotFoundError):
        kept = json.loads(file.read_text(encoding="utf-8"))
    seeded = _seed_demo(command)
    keys = {name: seeded[name] for name in _KEYS}
    for name in _KEYS:
        key = kept.get(name)
        # The one we kept, if it is the one the database knows.
        if not keys[name] and key is not None:
            is_known = hashlib.sha256(key.encode()).hexdigest() == seeded[f"{name}_hash"]
            keys[name] = key if is_known else None
    if not all(keys.values()):
        seeded = _seed_demo(command, "--rotate")
        keys = {name: seeded[name] for name in _KEYS}
    ids = {name: seeded[name] for name in ("account_id", "workspace_id")}
    demo = ids | keys | {"admin_user": ADMIN, "admin_password": _admin_password(kept, ids)}
    if demo != kept:
        write_private(file, json.dumps(demo, indent=2) + "\n")
    return demo


def _seed_demo(command: Command, *options: str) -> dict[str, Any]:
    where = ["--account", ACCOUNT, "--workspace", WORKSPACE]
    return command("seed_keys", *where, "--credits", CREDITS_USD, *options)


def _admin_password(kept: dict[str, Any], ids: dict[str, Any]) -> str:
    """The admin's password; set anew when it is not the kept one of this database."""
    password: str | None = kept.get("admin_password")
    users = get_user_model()._default_manager
    admin = users.filter(username=ADMIN).first()
    if admin is None:
        password = password or secrets.token_urlsafe(12)
        users.create_superuser(username=ADMIN, password=password)
        return password
    # Checking a password takes a third of a second, so it is left to databases not seen before.
    same_database = kept.get("account_id") == ids["account_id"]
    if password is None or not (same_database or admin.check_password(password)):
        password = secrets.token_urlsafe(12)
        admin.set_password(password)
        admin.save(update_fields=["password"])
    return password


# By name, because this package imports no app.
DEMO_CATALOGUE = "routing.catalogue.files.demo_catalogue"
CONFIGURED_PROVIDERS = "routing.providers.discovery.list_configured_providers"
DEMO_DEFAULT_MODEL = "simulated/intern"
ADMIT_MEMBER = "accounts.services.organization.admit_member"
_STATUS_DISABLED = -5
_LOOK_AGAIN_S = 0.5


def write_event(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def check_settings() -> None:
    """Refuse settings that contradict each other. All of Django's checks would take too long."""
    for check in registry.get_checks():
        if check.__module__ == "gateway.apps":
            for message in check(app_configs=None, databases=None):
                if message.is_serious():
                    raise CommandError(f"{message.msg} ({message.id})", returncode=ODD_SETTING)


def wait_for_database() -> None:
    is_reported = False
    while True:
        try:
            connection.ensure_connection()
        except OperationalError as error:
            if not is_reported:
                write_event(waiting=str(error).strip().splitlines()[0])
            is_reported = True
            connection.close()
            time.sleep(_LOOK_AGAIN_S)
        else:
            return


def migrate() -> None:
    """Apply what is pending; the command itself costs a while even with nothing to do."""
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", verbosity=0, interactive=False)


def command(*arguments: str) -> dict[str, Any]:
    """A command with --json; its one object. Raises `CommandError` when it is refused."""
    output = io.StringIO()
    try:
        call_command(*arguments, "--json", stdout=output)
    except SystemExit as end:
        raise CommandError(f"{arguments[0]} ended with {end.code}") from end
    answer: dict[str, Any] = json.loads(output.getvalue())
    return answer


def load_demo_catalogue(simulator_url: str) -> None:
    """Offer the simulated providers at that address; without one, disable what there is of them."""
    document = import_string(DEMO_CATALOGUE)(simulator_url or "http://127.0.0.1:9")
    if not simulator_url:
        known = {provider["slug"] for provider in command("dump_catalogue")["providers"]}
        simulated = [each for each in document["providers"] if each["slug"] in known]
        document = {"providers": [each | {"status": _STATUS_DISABLED} for each in simulated]}
    file = home() / "run" / "demo-catalogue.yaml"
    write_private(file, yaml.safe_dump(document, sort_keys=False))
    command("load_catalogue", str(file))


def main() -> int:
    django.setup()
    check_settings()
    wait_for_database()
    migrate()
    is_new = not demo_file().exists()
    demo = seed_access(command)
    simulator_url = sys.stdin.readline().strip()
    load_demo_catalogue(simulator_url)
    if is_new:
        # Only members of the demo's account own interns and talk to them.
        account = apps.get_model("accounts", "Account")._default_manager.get(pk=demo["account_id"])
        role = apps.get_model("accounts", "Membership").Role.ADMIN
        import_string(ADMIT_MEMBER)(account=account, username=ADMIN, role=role)
    if is_new and simulator_url:
        # Interns need a model that can use tools.
        workspaces = apps.get_model("accounts", "Workspace")._default_manager
        workspaces.filter(pk=demo["workspace_id"], default_text_model="").update(
            default_text_model=DEMO_DEFAULT_MODEL
        )
    # Made anew for each run, so it stands in no file of the home but `ready.json`.
    demo["console_link"] = command("console_link", "--user", ADMIN)["path"]
    providers = [provider.slug for provider in import_string(CONFIGURED_PROVIDERS)()]
    write_event(demo=demo, providers=providers)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CommandError as error:
        sys.stderr.write(f"gateway: {error}\n")
        sys.exit(error.returncode)
