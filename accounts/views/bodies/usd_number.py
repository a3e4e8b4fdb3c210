"""An amount of USD in a body: a JSON number that is whole in nano-USD."""

from decimal import Decimal
from typing import Any

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from accounts.money import nano_of


def _usd(value: Decimal) -> Decimal:
    try:
        nano_of(value)
    except ValueError:
        raise PydanticCustomError(
            "usd", "Invalid input: expected at most 9 decimal places and a billion USD"
        ) from None
    return value


def _number(value: Any) -> Any:
    """JSON numbers only: pydantic would read a decimal from a string or a boolean."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(repr(value))
    raise PydanticCustomError("float_type", "Input should be a valid number")


def usd_bounded(bounds: Any) -> tuple[Any, ...]:
    """What makes a `Decimal` such a field, within `bounds` (a pydantic `Field`)."""
    return (BeforeValidator(_number), bounds, AfterValidator(_usd))
