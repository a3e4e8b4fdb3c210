"""A key's limit through days, weeks and months, against a model of a few lines."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import orjson
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from accounts.caller import read_caller
from accounts.free_requests import free_requests_of
from accounts.models import ApiKey
from accounts.services.keys import set_limit
from accounts.views.key_objects import current_key_object
from routing.metering.orders import HoldOrder
from routing.metering.writer import LedgerWriter
from tests.routing.metering.books import (
    USD,
    carry_out,
    hold_order,
    new_payer,
    payer_of,
    running_writer,
    settle_order,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.thorough]
AMOUNTS = st.integers(1, USD)
RESETS = st.sampled_from([None, "daily", "weekly", "monthly"])
# Whole days and hours, and the moments on both sides of midnight.
STEPS = st.sampled_from([timedelta(hours=1), timedelta(days=1), timedelta(days=8)]) | st.builds(
    timedelta, seconds=st.integers(1, 40 * 86_400)
)
BEGINNINGS = st.datetimes(datetime(2026, 1, 1), datetime(2028, 12, 31), timezones=st.just(UTC))


@dataclass
class Model:
    """What was spent or is held, by generation: when it began and how much."""

    limit: int | None = None
    reset: str | None = None
    amounts: dict[str, tuple[datetime, int]] = field(default_factory=dict)

    def window(self, at: datetime, reset: str | None) -> object:
        year, week, _ = at.isocalendar()
        names = {"daily": at.date(), "weekly": (year, week), "monthly": (at.year, at.month)}
        return names.get(reset or "")

    def counted(self, now: datetime, reset: str | None) -> int:
        here = self.window(now, reset)
        return sum(n for at, n in self.amounts.values() if self.window(at, reset) == here)

    def fits(self, now: datetime, amount: int) -> bool:
        return self.limit is None or self.counted(now, self.reset) + amount <= self.limit


class KeyLife(RuleBasedStateMachine):
    """One key of a rich account. Holds are settled in the windows they were placed in."""

    writer: ClassVar[LedgerWriter]
    holds = Bundle("holds")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.open: set[str] = set()

    @initialize(now=BEGINNINGS, limit=st.none() | AMOUNTS, reset=RESETS)
    def begin(self, now: datetime, limit: int | None, reset: str | None) -> None:
        self.now = now
        payer = new_payer(10_000 * USD, limit_nano=limit, limit_reset=reset)
        self.key = ApiKey.objects.get(pk=payer.key_id)
        self.model.limit, self.model.reset = limit, reset

    @rule(step=STEPS)
    def wait(self, step: timedelta) -> None:
        self.now += step

    @rule()
    def wait_for_midnight(self) -> None:
        midnight = (self.now + timedelta(days=1)).replace(hour=0, minute=0, second=0)
        self.now = midnight.replace(microsecond=0)

    @rule(limit=st.none() | AMOUNTS, reset=RESETS)
    def limit(self, limit: int | None, reset: str | None) -> None:
        set_limit(key=self.key, limit_nano=limit, limit_reset=reset, at=self.now)
        self.model.limit, self.model.reset = limit, reset

    @rule(target=holds, amount=AMOUNTS)
    def hold(self, amount: int) -> object:
        order = hold_order(payer_of(self.key, at=self.now), amount, at=self.now)
        fits = self.model.fits(self.now, amount)
        assert (carry_out(self.writer, order) is True) == fits
        if not fits:
            return multiple()
        self.model.amounts[order.generation_id] = (self.now, amount)
        self.open.add(order.generation_id)
        return order

    @rule(target=holds)
    def hold_all_that_is_left(self) -> object:
        if self.model.limit is None:
            return multiple()
        left = self.model.limit - self.model.counted(self.now, self.model.reset)
        return self.hold(left) if left > 0 else multiple()

    @rule(hold=consumes(holds), share=st.floats(0, 1))
    def settle(self, hold: HoldOrder, share: float) -> None:
        charge = int(hold.amount_nano * share)
        assert carry_out(self.writer, settle_order(hold, charge)) is True
        self.model.amounts[hold.generation_id] = (
            self.model.amounts[hold.generation_id][0],
            charge,
        )
        self.open.discard(hold.generation_id)

    @invariant()
    def the_key_says_what_the_model_says(self) -> None:
        told = self._told()
        settled = {id: row for id, row in self.model.amounts.items() if id not in self.open}
        spent = Model(amounts=settled)
        for name, reset in (("", None), ("_daily", "daily"), ("_weekly", "weekly")):
            assert told[f"usage{name}"] == spent.counted(self.now, reset) / USD
        assert told["usage_monthly"] == spent.counted(self.now, "monthly") / USD
        if self.model.limit is None:
            assert told["limit_remaining"] is None
        else:
            left = self.model.limit - spent.counted(self.now, self.model.reset)
            assert told["limit_remaining"] == max(0, left) / USD

    def _told(self) -> dict[str, Any]:
        caller = read_caller(self.key.hash)
        assert caller is not None
        told = current_key_object(caller, free_requests_of(caller), self.now)
        shown: dict[str, Any] = orjson.loads(orjson.dumps(told))
        return shown


@pytest.fixture
def life() -> Iterator[type[KeyLife]]:
    with running_writer() as writer:
        yield type("Life", (KeyLife,), {"writer": writer})


LIVES = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def test_a_limit_holds_in_every_window_of_thirty_lives(life: type[KeyLife]) -> None:
    run_state_machine_as_test(life, settings=LIVES)


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_a_limit_holds_in_every_window_of_2000_lives(life: type[KeyLife]) -> None:
    run_state_machine_as_test(life, settings=settings(LIVES, max_examples=2000))
