"""Credentials of a team's own as the management side keeps them, and who is asked about keys."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from accounts import ports
from accounts.caller import Caller, read_caller
from accounts.models import ApiKey
from accounts.ports import KeyTrial, register_higher_apps
from accounts.services.keys import create_key
from tests.accounts.higher import ReplacedApps
from tests.support.management import Manager

KEY = "sk-abcd1234efgh"
NEW = {"provider": "openai", "key": KEY}
FIELDS = {
    *("id", "provider", "name", "label", "workspace_id", "disabled", "is_fallback"),
    *("is_required", "is_byok_only", "declared_zdr", "declared_region"),
    *("sort_order", "allowed_models", "allowed_api_key_hashes", "allowed_user_ids"),
    "created_at",
}
HASHES = "allowed_api_key_hashes"


class Providers:
    """Who is asked about keys, what they say, and what they were asked in which transaction."""

    def __init__(self) -> None:
        self.verdict = KeyTrial("accepted", "the provider answered 200")
        self.asked: list[tuple[str, str]] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def try_key(self, slug: str, key: str) -> KeyTrial:
        self.asked.append((slug, key))
        self.meanwhile()
        return self.verdict


@contextmanager
def asked_providers() -> Iterator[Providers]:
    """Two providers that are asked about keys instead of the catalogue's."""
    before, told = ports._registered[:], Providers()
    register_higher_apps(
        ReplacedApps(
            is_known_provider=lambda slug: slug in {"openai", "acme"}, try_key=told.try_key
        )
    )
    try:
        yield told
    finally:
        ports._registered[:] = before


def bring_credential(mine: Manager, **said: Any) -> Any:
    return mine.ok("POST", "/byok", NEW | said, status=201)["data"]


def key_of(mine: Manager, name: str = "k") -> ApiKey:
    workspace = mine.account.workspaces.get(is_default=True)
    return create_key(account=mine.account, name=name, workspace=workspace, creator=mine.admin)[0]


def caller_of(key: ApiKey) -> Caller:
    caller = read_caller(key.hash)
    assert caller is not None
    return caller
