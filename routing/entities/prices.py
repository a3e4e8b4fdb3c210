"""What one token or unit costs: the published pricing object, parsed once, exact ever after."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Context, Decimal, InvalidOperation, localcontext
from functools import cached_property
from typing import Any, Final, NamedTuple

from gateway.http.jsonio import JsonObject

PRICE_MAX: Final = Decimal(10_000)
_NANO_PER_USD: Final = Decimal(1_000_000_000)
# Wide enough for every digit that prices, discounts and their product may have.
_EXACT: Final = Context(prec=200)
_DIGITS_MAX: Final = 40
_MINUTES_PER_DAY: Final = 24 * 60
_PROMPT_KINDS: Final = (
    *("prompt", "input_cache_read", "input_cache_write", "input_cache_write_1h"),
    "audio",
)
_COMPLETION_KINDS: Final = ("completion", "internal_reasoning", "audio_output", "image_output")
_CONDITIONS: Final = frozenset({"min_prompt_tokens", "utc_start", "utc_end"})


class PriceError(ValueError):
    """The pricing object cannot be billed by. `field` is the dotted place of the fault."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


@dataclass(frozen=True)
class PriceOverride:
    """Prices that replace others while all conditions hold; times are minutes of the UTC day."""

    prices: Mapping[str, Decimal]
    min_prompt_tokens: int | None = None
    utc_start: int = 0
    utc_end: int = _MINUTES_PER_DAY

    def applies(self, prompt_tokens: int, minute: int) -> bool:
        if self.min_prompt_tokens is not None and prompt_tokens <= self.min_prompt_tokens:
            return False
        if self.utc_start < self.utc_end:
            return self.utc_start <= minute < self.utc_end
        return minute >= self.utc_start or minute < self.utc_end

    def serialize(self) -> JsonObject:
        conditions: JsonObject = {}
        if self.min_prompt_tokens is not None:
            conditions["min_prompt_tokens"] = self.min_prompt_tokens
        if (self.utc_start, self.utc_end) != (0, _MINUTES_PER_DAY):
            conditions |= {
                "utc_start": _format_time(self.utc_start),
                "utc_end": _format_time(self.utc_end),
            }
        return conditions | {key: plain(price) for key, price in self.prices.items()}


@dataclass(frozen=True)
class Prices:
    """USD per token (`prompt`, `completion`, …) or per unit (`request`, `image`, `web_search`).

    None is a price the endpoint does not publish. `discount` is a share from 0 to 1.
    """

    prompt: Decimal
    completion: Decimal
    request: Decimal | None = None
    image: Decimal | None = None
    image_token: Decimal | None = None
    image_output: Decimal | None = None
    audio: Decimal | None = None
    audio_output: Decimal | None = None
    input_audio_cache: Decimal | None = None
    web_search: Decimal | None = None
    internal_reasoning: Decimal | None = None
    input_cache_read: Decimal | None = None
    input_cache_write: Decimal | None = None
    input_cache_write_1h: Decimal | None = None
    discount: Decimal = Decimal(0)
    overrides: tuple[PriceOverride, ...] = ()

    @classmethod
    def parse(cls, pricing: object) -> "Prices":
        """Read a pricing object. Raises `PriceError` naming the field."""
        if not isinstance(pricing, Mapping):
            raise PriceError("", "expected an object of prices")
        _refuse_unknown(pricing, "", {*PRICE_KEYS, "discount", "overrides"})
        for key in ("prompt", "completion"):
            if pricing.get(key) is None:
                raise PriceError(key, "a price is required (0 when it is free)")
        prices = _parse_prices(pricing, "")
        discount = Decimal(0)
        if pricing.get("discount") is not None:
            discount = _parse_decimal(pricing["discount"], "discount")
            if not 0 <= discount <= 1:
                text = f"expected a share from 0 to 1, got {pricing['discount']}"
                raise PriceError("discount", text)
        overrides = pricing.get("overrides")
        if overrides is not None and not isinstance(overrides, list | tuple):
            raise PriceError("overrides", "expected a list")
        parsed = [
            _parse_override(entry, f"overrides[{at}]") for at, entry in enumerate(overrides or ())
        ]
        return cls(**prices, discount=discount, overrides=tuple(parsed))

    @cached_property
    def is_free(self) -> bool:
        """Whether nothing can ever be charged at these prices."""
        overridden = (price for entry in self.overrides for price in entry.prices.values())
        own = (getattr(self, key) or 0 for key in PRICE_KEYS)
        return self.discount == 1 or not (any(own) or any(overridden))

    @cached_property
    def token_usd(self) -> Decimal:
        """Of one prompt and one completion token together, after discount: what a sort by price and
        the draw of load balancing go by."""
        return (self.prompt + self.completion) * (1 - self.discount)

    @cached_property
    def token_price(self) -> float:
        """The same, where a draw needs no more digits."""
        return float(self.token_usd)

    @cached_property
    def caches_cheaper(self) -> bool:
        """Whether a cached prompt token costs less than a fresh one."""
        return self.input_cache_read is not None and self.input_cache_read < self.prompt

    @cached_property
    def whole_numbers(self) -> "WholePrices":
        """The prices after discount in whole numbers; overrides are not in it."""
        charged = {key: self._nano(getattr(self, key)) for key in PRICE_KEYS}
        return WholePrices(*_scale_to_whole(charged))

    @cached_property
    def highest(self) -> "HighestPrices":
        """The dearest a prompt token, a completion token, a request and an image can be after
        discount, overrides included, in whole numbers."""
        dearest = {
            "prompt": self._dearest(*_PROMPT_KINDS),
            "completion": self._dearest(*_COMPLETION_KINDS),
            "request": self._dearest("request"),
            "image": self._dearest("image"),
        }
        parts, prices = _scale_to_whole({key: self._nano(price) for key, price in dearest.items()})
        return HighestPrices(parts, **{key: price or 0 for key, price in prices.items()})

    def _nano(self, price: Decimal | None) -> Decimal | None:
        """Nano-USD after discount, every digit of it."""
        if price is None:
            return None
        with localcontext(_EXACT):
            return price * (1 - self.discount) * _NANO_PER_USD

    def _dearest(self, *kinds: str) -> Decimal:
        own = [getattr(self, kind) for kind in kinds]
        overridden = [entry.prices.get(kind) for entry in self.overrides for kind in kinds]
        return max((price for price in own + overridden if price is not None), default=Decimal(0))

    def effective(self, prompt_tokens: int, at: datetime) -> "Prices":
        """The prices of one request: overrides whose conditions all hold, later ones winning."""
        if not self.overrides:
            return self
        moment = at.astimezone(UTC)
        minute = moment.hour * 60 + moment.minute
        changes: JsonObject = {}
        for entry in self.overrides:
            if entry.applies(prompt_tokens, minute):
                changes.update(entry.prices)
        return replace(self, **changes, overrides=())

    def serialize(self) -> JsonObject:
        """The pricing object: plain decimal strings, absent where there is no price."""
        given = ((key, getattr(self, key)) for key in PRICE_KEYS)
        pricing: JsonObject = {key: plain(price) for key, price in given if price is not None}
        if self.discount:
            pricing["discount"] = float(self.discount)
        if self.overrides:
            pricing["overrides"] = [entry.serialize() for entry in self.overrides]
        return pricing


PRICE_KEYS: Final = tuple(
    field.name for field in fields(Prices) if field.name not in ("discount", "overrides")
)


def plain(amount: Decimal) -> str:
    """A decimal without exponent and without trailing zeros: `1.0E-7` as `0.0000001`."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") or "0" if "." in text else text


class WholePrices(NamedTuple):
    """Prices by kind as whole `parts` of a nano-USD, each exact; None where there is none.

    Products of these and counts are exact too, and cost a tenth of what decimals do.
    """

    parts: int
    prices: Mapping[str, int | None]


class HighestPrices(NamedTuple):
    """The same for what bounds the price of a request; 0 where there is no price."""

    parts: int
    prompt: int
    completion: int
    request: int
    image: int


def _scale_to_whole(nano: Mapping[str, Decimal | None]) -> tuple[int, dict[str, int | None]]:
    """Decimal amounts as whole multiples of one part of a nano-USD, and how many parts there are
    to it."""
    # A price is a finite number, whose exponent is one too.
    exponents: list[Any] = [p.as_tuple().exponent for p in nano.values() if p is not None]
    parts = 10 ** max(0, *(-exponent for exponent in exponents))
    with localcontext(_EXACT):
        whole = {key: None if price is None else int(price * parts) for key, price in nano.items()}
    return parts, whole


def _refuse_unknown(given: Mapping[Any, Any], prefix: str, known: set[str]) -> None:
    for key in given:
        if key not in known:
            raise PriceError(f"{prefix}{key}", "unknown price")


def _parse_prices(given: Mapping[str, Any], prefix: str) -> JsonObject:
    """The prices in `given`; null means absent."""
    prices: JsonObject = {}
    for key in PRICE_KEYS:
        value, field = given.get(key), f"{prefix}{key}"
        if value is None:
            continue
        if isinstance(value, float):
            raise PriceError(field, f"write the price as a string, not as the float {value!r}")
        prices[key] = _parse_decimal(value, field)
        if not 0 <= prices[key] <= PRICE_MAX:
            raise PriceError(field, f"expected 0 to {PRICE_MAX} USD, got {value}")
    return prices


def _parse_decimal(value: object, field: str) -> Decimal:
    text = str(value).strip()
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise PriceError(field, f"expected a decimal string, got {value!r}")
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise PriceError(field, f"expected a decimal string, got {value!r}") from None
    # The exponent is looked at first: "1e999999999" written out would fill the memory.
    absurd = not amount.is_finite() or abs(amount.adjusted()) > _DIGITS_MAX
    if absurd or len(format(amount, "f")) > _DIGITS_MAX:
        raise PriceError(field, f"expected a plain amount, got {text[:_DIGITS_MAX]!r}")
    return abs(amount) if amount == 0 else amount


def _parse_override(entry: object, place: str) -> PriceOverride:
    if not isinstance(entry, Mapping):
        raise PriceError(place, "expected an object")
    _refuse_unknown(entry, f"{place}.", {*PRICE_KEYS, *_CONDITIONS})
    prices = _parse_prices(entry, f"{place}.")
    if not prices:
        raise PriceError(place, "names no price")
    start = _parse_minutes(entry.get("utc_start", "0000"), f"{place}.utc_start")
    end = _parse_minutes(entry.get("utc_end", "2400"), f"{place}.utc_end")
    if start == end:
        raise PriceError(f"{place}.utc_end", "is the same as utc_start")
    least = entry.get("min_prompt_tokens")
    if least is not None and (type(least) is not int or least < 0):
        text = f"expected a whole number, got {least!r}"
        raise PriceError(f"{place}.min_prompt_tokens", text)
    return PriceOverride(prices, least, start, end)


def _parse_minutes(value: object, field: str) -> int:
    # A bare 0130 in YAML is an octal number, so only text is taken.
    if not isinstance(value, str) or len(value) != 4 or not value.isascii() or not value.isdigit():
        raise PriceError(field, f'expected "HHMM" as a string, got {value!r}')
    minutes = int(value[:2]) * 60 + int(value[2:])
    if int(value[2:]) > 59 or minutes > _MINUTES_PER_DAY:
        raise PriceError(field, f"no time of day: {value!r}")
    return minutes


def _format_time(minutes: int) -> str:
    return f"{minutes // 60:02d}{minutes % 60:02d}"
