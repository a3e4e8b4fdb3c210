"""The SQL of the updates that move money, each with its guard; values are bound to `%s`.

`batch` sends these texts for many orders and for one alone, `holds` and `settlements` for one after
the other. The rules against overdrafts stand here only:

- a hold needs the payer's limits to be the current ones, and the balance to cover it;
- no counter with a limit may be held on past that limit.
"""

from functools import cache
from typing import Final

# What a counter counts besides the account's money: list prices on credentials of the caller's own.
BYOK_COUNTED: Final = "(CASE WHEN counts_byok THEN byok_spent_nano + byok_held_nano ELSE 0 END)"
# Amount spent, amount freed, account.
CHARGE_ACCOUNT: Final = (
    "UPDATE accounts_account SET total_usage_nano = total_usage_nano + %s,"
    " held_nano = held_nano - %s WHERE id = %s"
)


@cache
def reserve_account_sql(*, needs_balance: bool, has_amount: bool) -> str:
    """Hold an amount on an account: amount, account, limits version, and the amount again where
    the hold `needs_balance`. One row moves where it may be held."""
    sql = (
        "UPDATE accounts_account SET held_nano = held_nano + %s"
        " WHERE id = %s AND limits_version = %s"
    )
    if not needs_balance:
        return sql
    # A free call needs no money, only that none is owed.
    held = "held_nano" if has_amount else "0"
    return f"{sql} AND total_credits_nano - total_usage_nano - {held} >= %s"


def reserve_counters_sql(mine: str) -> str:
    """Hold an amount on all counters of the condition `mine`, or on none: amount, the condition's
    values twice, amount."""
    return (
        f"UPDATE accounts_spendcounter SET held_nano = held_nano + %s WHERE {mine}"  # noqa: S608 - A condition of placeholders.
        f" AND NOT EXISTS ({_full_one(mine)} + %s > limit_nano)"
    )


def reserve_byok_counters_sql(mine: str) -> str:
    """The same for an order with a BYOK price. Its values are amount, BYOK price, the condition's
    values twice, then twice what counters ask that count BYOK and what the others ask.

    A counter of which nothing is asked (BYOK that it does not count) refuses no order.
    """
    asked = "(CASE WHEN counts_byok THEN CAST(%s AS bigint) ELSE CAST(%s AS bigint) END)"
    return (
        "UPDATE accounts_spendcounter SET held_nano = held_nano + %s,"  # noqa: S608 - A condition of placeholders.
        f" byok_held_nano = byok_held_nano + %s WHERE {mine}"
        f" AND NOT EXISTS ({_full_one(mine)} + {asked} > limit_nano AND {asked} > 0)"
    )


def _full_one(mine: str) -> str:
    """Any limited counter of the condition; what it counts stands last, to be compared."""
    return (
        f"SELECT 1 FROM accounts_spendcounter AS full_one WHERE full_one.{mine}"  # noqa: S608 - A condition of placeholders.
        f" AND full_one.limit_nano IS NOT NULL AND spent_nano + held_nano + {BYOK_COUNTED}"
    )


# The counters' guard where the rows that moved are counted behind it: amount, ids, amount. Each row
# is judged as it is once its lock is held, which `NOT EXISTS` would not do inside one statement.
RESERVE_EACH_COUNTER: Final = (
    "UPDATE accounts_spendcounter SET held_nano = held_nano + %s"  # noqa: S608 - Constant fragments; values are bound.
    " WHERE (SELECT count(*) FROM account) = 1 AND id = ANY(%s)"
    f" AND (limit_nano IS NULL OR {BYOK_COUNTED} + spent_nano + held_nano + %s <= limit_nano)"
)


def free_held_sql(column: str, held: str) -> str:
    """Take an amount off `column` where the condition `held` is true: its values, amount."""
    return f"{column} = {column} - CASE WHEN {held} THEN CAST(%s AS bigint) ELSE 0 END"
