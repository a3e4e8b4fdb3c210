"""A team's management key at work, in process and past the key cache."""

from datetime import UTC, datetime
from typing import Any

from accounts.models import ApiKey, Hold, LedgerEntry, SpendCounter
from accounts.spending import find_window_starts
from tests.support.management import Manager, manager

KEYS = "/keys"


class Office(Manager):
    """A manager whose business is keys."""

    def new(self, **body: Any) -> Any:
        """A new key's `data` and `key`."""
        return self.ok("POST", KEYS, {"name": "k"} | body, status=201)

    def hashes(self, query: str = "") -> list[str]:
        return [key["hash"] for key in self.ok("GET", KEYS + query)["data"]]

    def status_of(self, string: str) -> int:
        """What GET /key answers to that key."""
        status: int = self.call("GET", "/key", key=string)[0]
        return status


def open_office(name: str = "mine") -> Office:
    made = manager(name)
    return Office(made.account, made.admin, made.key)


def key_path(made: Any, tail: str = "") -> str:
    """The path of a key that was made, or of its data."""
    data = made.get("data", made)
    return f"{KEYS}/{data['hash']}{tail}"


def spend(key: ApiKey, nano: int, at: datetime | None = None, **limits: int) -> None:
    """Counted for the key in the windows of that moment, which `limits` limit by their names."""
    for window, start in find_window_starts(at or datetime.now(UTC)).items():
        row, _ = SpendCounter.objects.get_or_create(
            scope="key", scope_id=str(key.pk), window=window, window_start=start
        )
        row.spent_nano += nano
        row.limit_nano = limits.get(window, row.limit_nano)
        row.save(update_fields=["spent_nano", "limit_nano"])


def charge(key: ApiKey, nano: int, generation_id: str, at: datetime) -> None:
    """What a generation cost, as the books say it."""
    owner: dict[str, Any] = {"account_id": key.account_id, "workspace_id": key.workspace_id}
    owner |= {"api_key": key, "generation_id": generation_id, "source_ref": generation_id}
    usage = {"kind": "usage", "amount_nano": nano, "source": "generation"}
    LedgerEntry.objects.create(**owner, **usage, day=at.date(), created_at=at)


def hold(key: ApiKey, nano: int, generation_id: str, until: datetime) -> None:
    """What a generation that runs may cost."""
    owner: dict[str, Any] = {"account_id": key.account_id, "workspace_id": key.workspace_id}
    held = {"generation_id": generation_id, "amount_nano": nano, "counter_ids": "0", "model": "m"}
    Hold.objects.create(
        **owner, api_key=key, **held, created_at=datetime.now(UTC), lease_expires_at=until
    )
