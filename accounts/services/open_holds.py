"""Holds that were placed before a limit they must count against."""

from collections.abc import Callable, Iterable
from uuid import UUID

from django.db.models import F

from accounts.models import ApiKey, Hold, SpendCounter
from accounts.spending import SpendScope, holder_of

# What a hold's `counter_ids` says where there is none.
NO_COUNTER = "0"
_AT_ONCE = 500


class OpenHolds:
    """The holds of an account whose row is locked: nobody places, raises or ends one meanwhile."""

    def __init__(self, account_id: UUID) -> None:
        self._account_id = account_id
        self._holds = list(Hold.objects.filter(account_id=account_id))
        self._moved: dict[str, Hold] = {}
        self._creators: dict[int, int | None] | None = None

    def of_key(self, key_id: int) -> list[Hold]:
        return [hold for hold in self._holds if hold.api_key_id == key_id]

    def of(self, scope: SpendScope) -> list[Hold]:
        """Those that spend what the scope limits."""
        belongs = self._rule(scope)
        return [hold for hold in self._holds if belongs(hold)]

    def adopt(self, counter_id: int, holds: Iterable[Hold]) -> None:
        """Let these hold on the counter too, from `save` on."""
        name = str(counter_id)
        fresh = [hold for hold in holds if name not in hold.counter_ids.split(",")]
        for hold in fresh:
            others = [each for each in hold.counter_ids.split(",") if each != NO_COUNTER]
            hold.counter_ids = ",".join([*others, name])
            self._moved[hold.pk] = hold
        if fresh:
            SpendCounter.objects.filter(pk=counter_id).update(
                held_nano=F("held_nano") + sum(hold.amount_nano for hold in fresh),
                byok_held_nano=F("byok_held_nano") + sum(hold.byok_nano for hold in fresh),
            )

    def save(self) -> None:
        Hold.objects.bulk_update(self._moved.values(), ["counter_ids"], batch_size=_AT_ONCE)
        self._moved.clear()

    def _rule(self, scope: SpendScope) -> Callable[[Hold], bool]:
        if scope.scope == "workspace":
            return lambda hold: hold.workspace_id.hex == scope.scope_id
        kind, number = holder_of(scope.scope_id)
        place = scope.workspace
        return lambda hold: (
            (not place or hold.workspace_id.hex == place)
            and (hold.api_key_id if kind == "k" else self._creator(hold.api_key_id)) == number
        )

    def _creator(self, key_id: int) -> int | None:
        if self._creators is None:
            keys = {hold.api_key_id for hold in self._holds}
            rows = ApiKey.objects.filter(pk__in=keys).values_list("pk", "creator_id")
            self._creators = dict(rows)
        return self._creators.get(key_id)
