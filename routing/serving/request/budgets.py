"""The budgets that a request counts against."""

from accounts.caller import Caller
from accounts.spending import SpendScope
from gateway.end_users import hash_user


def list_budgets(caller: Caller, user: str | None) -> tuple[SpendScope, ...]:
    """Those of the key, and the end user's own last, in the order in which they refuse."""
    budget = caller.end_user_budget
    if budget is None or not user:
        return caller.budgets
    scope = budget.build_scope(hash_user(caller.account_id, user))
    return caller.budgets if scope is None else (*caller.budgets, scope)
