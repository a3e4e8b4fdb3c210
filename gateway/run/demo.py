"""The demo account and its secrets, which a second start shows again."""

import hashlib
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model

from gateway.home import home, write_private

ACCOUNT = "demo"
WORKSPACE = "default"
CREDITS_USD = "5"
ADMIN = "admin"
_KEYS = ("api_key", "management_key")

Command = Callable[..., dict[str, Any]]


def demo_file() -> Path:
    return home() / "secrets" / "demo.json"


def access(command: Command) -> dict[str, Any]:
    """Seed the account and the admin; `account_id`, `workspace_id`, both keys and the password.

    A key whose only copy is lost is made anew. `command` runs a manage.py command.
    """
    file = demo_file()
    kept = _read(file)
    seeded = _seed(command)
    keys = {name: seeded[name] or _kept_key(kept, seeded, name) for name in _KEYS}
    if not all(keys.values()):
        seeded = _seed(command, "--rotate")
        keys = {name: seeded[name] for name in _KEYS}
    ids = {name: seeded[name] for name in ("account_id", "workspace_id")}
    demo = ids | keys | {"admin_user": ADMIN, "admin_password": _admin_password(kept, ids)}
    if demo != kept:
        write_private(file, json.dumps(demo, indent=2) + "\n")
    return demo


def _seed(command: Command, *options: str) -> dict[str, Any]:
    where = ["--account", ACCOUNT, "--workspace", WORKSPACE]
    return command("seed_keys", *where, "--credits", CREDITS_USD, *options)


def _read(file: Path) -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return kept


def _kept_key(kept: dict[str, Any], seeded: dict[str, Any], name: str) -> str | None:
    """The key we kept, if it is the one the database knows."""
    key: str | None = kept.get(name)
    if key is None or hashlib.sha256(key.encode()).hexdigest() != seeded[f"{name}_hash"]:
        return None
    return key


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
