"""A batch as one transaction, without the way one by one that stands in where it does not fit. An
error in the quick way would only make it slow, and nobody would see it."""

from collections.abc import Iterator
from typing import Any

import pytest

from accounts.models import ApiKey, Hold, LedgerEntry, SpendCounter
from accounts.spending import TagBudget, build_tag_scopes
from routing.ledger.batch import apply_batch, apply_one_by_one
from routing.ledger.counters import CounterCache
from routing.ledger.orders import (
    HoldRefusal,
    Order,
    Payer,
    ReleaseOrder,
    TopUpOrder,
)
from routing.ledger.session import LedgerSession
from routing.ledger.tickets import Ticket
from tests.routing.ledger.books import (
    CENT,
    USD,
    assert_books_agree,
    carry_out,
    hold_order,
    key_counters,
    new_payer,
    open_holds,
    place_standing,
    release_order,
    settle_order,
    totals,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


class Recording(LedgerSession):
    """A session that notes what it sends."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        self.sent.append(sql)
        return super().execute(sql, parameters)


class Books:
    """One process's session and the counters that it has seen."""

    def __init__(self) -> None:
        self.session = Recording()
        self.counters = CounterCache(known_max=3, account_max=2)

    def meet(self, *payers: Payer) -> None:
        """Make the counters of these payers, and remember them."""
        for payer in payers:
            self.one_by_one(hold := hold_order(payer, 0))
            self.one_by_one(release_order(hold))
        self.session.sent.clear()

    def apply(self, *orders: Order, enforced: bool = True) -> bool:
        """Whether they stand; what does not is rolled back."""
        stands = apply_batch(
            self.session, self.counters, orders, enforced=enforced, before_commit=lambda: None
        )
        if not stands:
            self.session.rollback()
        return stands

    def one_by_one(self, *orders: Order, enforced: bool = True) -> list[Any]:
        self.session.begin()
        outcomes = apply_one_by_one(
            self.session, self.counters, [Ticket(order) for order in orders], enforced=enforced
        )
        self.session.commit()
        self.counters.keep_new()
        return outcomes


@pytest.fixture
def books(transactional_db: None) -> Iterator[Books]:
    books = Books()
    yield books
    books.session.close()
    assert_books_agree()


def test_two_orders_of_two_accounts_stand_together(books: Books) -> None:
    first = new_payer(USD, limit_nano=50 * CENT, limit_reset="daily")
    second = new_payer(USD)
    books.meet(first, second)
    holds = hold_order(first, 10 * CENT), hold_order(second, 20 * CENT)

    assert books.apply(*holds)

    # Nothing is asked of counters where none has a limit.
    counted = [sql for sql in books.session.sent if sql.startswith("UPDATE accounts_spendcounter")]
    assert len(counted) == 1
    assert (open_holds(first), open_holds(second)) == ([10 * CENT], [20 * CENT])
    assert (totals(first), totals(second)) == ((USD, 0, 10 * CENT), (USD, 0, 20 * CENT))
    assert key_counters(first)["day"] == (0, 10 * CENT)
    assert books.apply(
        settle_order(holds[0], 7 * CENT)._replace(held_nano=10 * CENT),
        release_order(holds[1])._replace(held_nano=20 * CENT),
        hold_order(first, 3 * CENT),
    )
    assert totals(first) == (USD, 7 * CENT, 3 * CENT)
    assert key_counters(first)["day"] == (7 * CENT, 3 * CENT)
    assert (totals(second), open_holds(second)) == ((USD, 0, 0), [])
    # Each was one transaction that asked for its locks once.
    kinds = [sql.split()[0] for sql in books.session.sent]
    assert (kinds.count("BEGIN"), kinds.count("COMMIT")) == (2, 2)
    locks = [sql for sql in books.session.sent if sql.endswith("FOR NO KEY UPDATE")]
    assert len(locks) == (0 if books.session.is_sqlite else 2)


def test_a_hold_whose_commit_is_unknown_stands_once(books: Books) -> None:
    payer = new_payer(USD)
    hold = hold_order(payer, CENT)
    books.one_by_one(hold)
    again = hold._replace(replayed=True), hold_order(payer, CENT)._replace(replayed=True)
    assert books.one_by_one(*again, hold_order(payer, CENT)) == [True] * 3
    assert (totals(payer)[2], open_holds(payer)) == (3 * CENT, [CENT] * 3)


def test_of_orders_for_one_generation_the_first_settlement_counts(books: Books) -> None:
    payer = new_payer(USD)
    hold = hold_order(payer, 10 * CENT)
    books.one_by_one(hold)
    release, first, second = release_order(hold), settle_order(hold, 3), settle_order(hold, 9)
    assert books.one_by_one(release, first, second, release) == [True] * 4
    assert totals(payer) == (USD, 3, 0)


def test_one_by_one_they_ask_the_balance_where_it_is_enforced(books: Books) -> None:
    payer = new_payer(CENT)
    (refused,) = books.one_by_one(hold_order(payer, CENT + 1))
    assert isinstance(refused, HoldRefusal)
    assert books.one_by_one(hold_order(payer, CENT + 1), enforced=False) == [True]
    # Nothing is owed yet: what is free fits.
    assert books.one_by_one(hold_order(payer, 0)) == [True]


def test_holds_of_one_payer_are_summed(books: Books) -> None:
    payer = new_payer(USD, limit_nano=50 * CENT)
    books.meet(payer)
    assert books.apply(*[hold_order(payer, 10 * CENT) for _ in range(3)])
    assert (totals(payer)[2], key_counters(payer)["total"]) == (30 * CENT, (0, 30 * CENT))


@pytest.mark.parametrize(
    ("more", "enforced", "stands"),
    [(0, True, True), (1, True, False), (1, False, True)],
    ids=["fits", "too much", "not enforced"],
)
def test_together_they_ask_the_balance(
    books: Books, more: int, enforced: bool, stands: bool
) -> None:
    payer = new_payer(20 * CENT)
    books.meet(payer)
    holds = hold_order(payer, 10 * CENT), hold_order(payer, 10 * CENT + more)
    assert books.apply(*holds, enforced=enforced) is stands
    assert totals(payer)[2] == (20 * CENT + more if stands else 0)
    assert len(open_holds(payer)) == (2 if stands else 0)


def test_together_they_ask_the_key_s_limit(books: Books) -> None:
    payer = new_payer(USD, limit_nano=15 * CENT)
    books.meet(payer)
    assert not books.apply(hold_order(payer, 10 * CENT), hold_order(payer, 10 * CENT))
    assert (totals(payer), key_counters(payer)["total"]) == ((USD, 0, 0), (0, 0))


def test_on_an_own_credential_alone_no_balance_is_asked_but_beside_others_it_is(
    books: Books,
) -> None:
    payer = new_payer(0)
    books.meet(payer)
    own = hold_order(payer, 0, byok_nano=5 * CENT)
    assert books.apply(own, hold_order(payer, 0, byok_nano=CENT))
    assert sorted(Hold.objects.values_list("byok_nano", flat=True)) == [CENT, 5 * CENT]
    assert not books.apply(hold_order(payer, 0, byok_nano=CENT), hold_order(payer, 1))
    assert not books.apply(hold_order(payer, 1, byok_nano=CENT), hold_order(payer, 0))


def test_a_limit_that_counts_own_credentials_holds_them_too(books: Books) -> None:
    payer = new_payer(USD, limit_nano=50 * CENT)
    ApiKey.objects.filter(pk=payer.key_id).update(include_byok_in_limit=True)
    SpendCounter.objects.filter(scope_id=str(payer.key_id)).delete()
    books.meet(payer)
    SpendCounter.objects.filter(scope_id=str(payer.key_id)).update(counts_byok=True)
    holds = hold_order(payer, 0, byok_nano=20 * CENT), hold_order(payer, CENT, byok_nano=10 * CENT)
    assert books.apply(*holds)
    counter = SpendCounter.objects.get(scope_id=str(payer.key_id), window="total")
    assert (counter.held_nano, counter.byok_held_nano) == (CENT, 30 * CENT)
    # 31 cents are held by both kinds: 19 are left.
    (refused,) = books.one_by_one(hold_order(payer, 0, byok_nano=19 * CENT + 1))
    assert isinstance(refused, HoldRefusal)
    assert not books.apply(hold_order(payer, 0, byok_nano=19 * CENT + 1), hold_order(payer, 0))
    (refused,) = books.one_by_one(hold_order(payer, CENT, byok_nano=19 * CENT))
    assert isinstance(refused, HoldRefusal)
    asked = refused.asked_nano, refused.byok_nano, refused.key_asked_nano, refused.key_held_nano
    assert asked == (CENT, 19 * CENT, 20 * CENT, 31 * CENT)
    # A hold that is raised says what it would be as a whole, beside what others hold.
    (refused,) = books.one_by_one(TopUpOrder(holds[1].generation_id, payer, CENT, 19 * CENT))
    asked = refused.asked_nano, refused.byok_nano, refused.key_asked_nano, refused.key_held_nano
    assert asked == (2 * CENT, 29 * CENT, 31 * CENT, 20 * CENT)
    assert books.one_by_one(TopUpOrder(holds[1].generation_id, payer, 0, 2 * CENT)) == [True]
    assert Hold.objects.get(pk=holds[1].generation_id).byok_nano == 12 * CENT
    assert books.apply(
        settle_order(holds[0], 0, byok_nano=15 * CENT)._replace(
            held_nano=0, held_byok_nano=20 * CENT
        ),
        settle_order(holds[1], 0, byok_nano=CENT)._replace(
            held_nano=CENT, held_byok_nano=12 * CENT
        ),
    )
    counter.refresh_from_db()
    assert (counter.byok_spent_nano, counter.byok_held_nano, counter.held_nano) == (
        *(16 * CENT, 0),
        0,
    )


def test_what_nobody_can_tell_in_advance_is_left_to_the_other_way(books: Books) -> None:
    payer, stranger = new_payer(USD), new_payer(USD)
    books.meet(payer)
    hold = hold_order(payer, CENT)
    # Beside another one, so that nothing falls below zero where one is freed twice.
    assert books.apply(hold, hold_order(payer, CENT))
    unsure: list[tuple[Order, ...]] = [
        (hold_order(stranger, CENT),),
        (hold_order(payer, CENT)._replace(replayed=True),),
        (TopUpOrder(hold.generation_id, payer, CENT),),
        (release_order(hold),),
        (settle_order(hold, CENT),),
        (ReleaseOrder("gen-none", stranger, CENT), hold_order(payer, CENT)),
        # A hold that is not what it was believed to be, and one told of twice.
        (ReleaseOrder(hold.generation_id, payer, held_nano=2 * CENT),),
        (
            ReleaseOrder(hold.generation_id, payer, CENT),
            settle_order(hold, 0)._replace(held_nano=CENT),
        ),
    ]
    for orders in unsure:
        assert not books.apply(*orders), orders
    assert (totals(payer), open_holds(payer)) == ((USD, 0, 2 * CENT), [CENT] * 2)
    assert totals(stranger) == (USD, 0, 0)


def test_a_batch_that_is_refused_leaves_its_transaction_open_for_the_other_way(
    books: Books,
) -> None:
    payer = new_payer(USD)
    hold = hold_order(payer, CENT)
    args: Any = {"enforced": True, "before_commit": lambda: None}
    assert not apply_batch(books.session, books.counters, [hold], **args)
    assert apply_one_by_one(books.session, books.counters, [Ticket(hold)], enforced=True) == [True]
    books.session.rollback()
    assert (totals(payer), open_holds(payer)) == ((USD, 0, 0), [])


def test_an_order_that_comes_alone_is_one_statement(books: Books) -> None:
    payer = new_payer(USD, limit_nano=50 * CENT)
    books.meet(payer)
    hold = hold_order(payer, 10 * CENT)
    assert books.apply(hold)
    assert books.apply(settle_order(hold, 7 * CENT)._replace(held_nano=10 * CENT))
    # SQLite writes one row after the other.
    assert books.session.is_sqlite or len(books.session.sent) == 2
    assert (totals(payer), key_counters(payer)["total"]) == ((USD, 7 * CENT, 0), (7 * CENT, 0))


def test_accounts_are_locked_before_anything_else_is_looked_at(books: Books) -> None:
    first, second = new_payer(USD), new_payer(USD)
    books.meet(first, second)
    hold = hold_order(first, CENT)
    for orders in ([hold, hold_order(second, CENT)], [settle_order(hold, CENT)]):
        books.session.sent.clear()
        books.one_by_one(*orders)
        begin, first_sent = books.session.sent[:2]
        if books.session.is_sqlite:
            assert begin == "BEGIN IMMEDIATE"  # Nobody else writes from here on.
        else:
            assert begin == "BEGIN"
            assert first_sent.endswith("FOR NO KEY UPDATE")
    # So it is where a batch of one account makes counters.
    books.session.sent.clear()
    assert books.apply(hold_order(tag_payer(first, team="new"), CENT), hold_order(first, CENT))
    assert books.session.is_sqlite or books.session.sent[1].endswith("FOR NO KEY UPDATE")


def test_a_fee_is_an_entry_beside_what_the_gateway_s_credentials_cost(writer, payer) -> None:
    hold = place_standing(writer, payer, 10 * CENT)
    order = settle_order(hold, 7 * CENT, byok_nano=40 * CENT)._replace(shared_nano=5 * CENT)
    carry_out(writer, order)
    found = LedgerEntry.objects.filter(generation_id=hold.generation_id).order_by("kind")
    told = [(each.kind, each.amount_nano, each.byok_nano, each.day) for each in found]
    day = dict(payer.windows)["day"]
    assert told == [("byok_fee", 2 * CENT, 0, day), ("usage", 5 * CENT, 40 * CENT, day)]
    assert totals(payer) == (USD, 7 * CENT, 0)


def test_of_holds_that_do_not_fit_the_first_that_came_is_placed(books: Books) -> None:
    payer = new_payer(CENT)
    books.meet(payer)
    late, early = (hold_order(payer, CENT)._replace(generation_id=f"gen-{name}") for name in "ab")
    placed_first, refused = books.one_by_one(early, late)
    assert placed_first is True
    assert isinstance(refused, HoldRefusal)


def tag_payer(payer: Payer, **tags: str) -> Payer:
    """The payer of a request with these tags, each of which has a budget."""
    budgets = [
        TagBudget(payer.workspace_id.hex, name, None, "total", USD, counts_byok=False)
        for name in tags
    ]
    return payer._replace(budgets=(*payer.budgets, *build_tag_scopes(budgets, tags)))


def test_a_settlement_counts_where_its_hold_did_whatever_its_payer_knows(books: Books) -> None:
    payer = new_payer(USD)
    hold = hold_order(tag_payer(payer, team="red"), 5 * CENT)
    books.one_by_one(hold)
    books.one_by_one(settle_order(hold, 4 * CENT)._replace(payer=payer))
    counter = SpendCounter.objects.get(scope="tag", account=payer.account_id)
    assert (counter.spent_nano, counter.held_nano) == (4 * CENT, 0)


def test_new_tags_send_no_batch_one_by_one(books: Books) -> None:
    one, other = new_payer(USD), new_payer(USD)
    books.meet(one, other)
    new = [hold_order(tag_payer(one, team=str(n), feature="x"), CENT) for n in range(5)]

    assert books.apply(*new, hold_order(other, CENT))

    books.counters.keep_new()
    made = [sql for sql in books.session.sent if "INTO accounts_spendcounter" in sql]
    assert len(made) == 1
    tags = SpendCounter.objects.filter(scope="tag", account=one.account_id)
    held = sorted(tags.values_list("held_nano", flat=True))
    assert held == [*[CENT] * 5, 5 * CENT]
    assert totals(one) == (USD, 0, 5 * CENT)
    # What does not fit leaves nothing, and neither does who does not know the limits of now.
    for wrong in (
        hold_order(tag_payer(one, team="wide"), 2 * USD),
        hold_order(tag_payer(one, team="late")._replace(limits_version=99), CENT),
    ):
        assert not books.apply(wrong, hold_order(other, CENT))
        assert books.counters.find_seen(wrong.payer) is None
    assert tags.count() == len(held)


def test_ever_new_tags_push_out_none_but_their_account_s_oldest(books: Books) -> None:
    one, other = new_payer(USD), new_payer(USD)
    red, blue, green = (tag_payer(one, team=team, feature="x") for team in ("red", "blue", "green"))
    of_other = tag_payer(other, team="red")
    books.meet(of_other, red, blue, red, green)

    cached = books.counters.find_cached
    assert [cached(payer) is not None for payer in (of_other, one, red, blue, green)] == [
        *(True, True, True),
        *(False, True),
    ]
    # Of many budgets only the whole is remembered, and all of it is charged.
    assert cached(tag_payer(one, team="red")) is None
    found, base = cached(red), cached(one)
    assert found is not None
    assert base is not None
    assert (len(found.every), len(found.limited)) == (len(base.every) + 2, len(base.limited) + 2)
    assert books.apply(hold_order(red, CENT), hold_order(of_other, CENT))
    tags = SpendCounter.objects.filter(scope="tag", account=one.account_id)
    assert sorted(tags.values_list("held_nano", flat=True)) == [0, 0, CENT, CENT]


def test_what_was_asked_for_last_is_remembered_longest(books: Books) -> None:
    payers = [new_payer(USD) for _ in range(4)]
    first, second, third, last = payers
    books.meet(first, second, third)
    assert books.apply(hold_order(first, CENT))
    books.meet(last)
    remembered = [books.counters.find_cached(payer) is not None for payer in payers]
    assert remembered == [True, False, True, True]
    # Together accounts have as many places for requests with tags, and the idle one makes room.
    tags = [
        tag_payer(first, team="red"),
        tag_payer(first, team="blue"),
        tag_payer(third, team="red"),
    ]
    books.meet(*tags, tags[0], tag_payer(third, team="blue"))
    remembered = [books.counters.find_cached(payer) is not None for payer in tags]
    assert remembered == [True, False, True]
