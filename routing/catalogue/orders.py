"""The orders that `GET /models` offers. Models without the figure go last, newest first."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from routing.catalogue.learned import Learned, latency_s, throughput_tps
from routing.catalogue.listing import top
from routing.entities.entries import ModelEntry

Figure = Callable[[ModelEntry, Learned], float | Decimal | None]
_MILLION: Final = Decimal(1_000_000)


def in_order(
    models: Sequence[ModelEntry], name: str | None, learned: Learned
) -> Sequence[ModelEntry]:
    """The models, which come newest first, in the order of that name."""
    figure = _FIGURES[name] if name else None
    if figure is None:
        return models
    known = [(figure(model, learned), model) for model in models]
    ranked = sorted([pair for pair in known if pair[0] is not None], key=_first)
    return [model for _, model in ranked] + [model for value, model in known if value is None]


def usd_per_million(model: ModelEntry, key: str) -> Decimal:
    """A price of the endpoint that stands for the model."""
    best = top(model)
    assert best is not None
    price: Decimal = getattr(best.prices, key)
    return price * _MILLION


def _first(pair: tuple[Any, ModelEntry]) -> Any:
    return pair[0]


def _context(model: ModelEntry, learned: Learned) -> float | None:
    return None if model.context_length is None else -model.context_length


def _throughput(model: ModelEntry, learned: Learned) -> float | None:
    fastest = throughput_tps(model, learned)
    return None if fastest is None else -fastest


def _month(model: ModelEntry, learned: Learned) -> float | None:
    calls = learned.calls.get(model.id)
    return None if calls is None else -calls.month


def _week(model: ModelEntry, learned: Learned) -> float | None:
    calls = learned.calls.get(model.id)
    return None if calls is None else -calls.week


# What each order goes by, lowest first; None keeps the newest first.
_FIGURES: Final[Mapping[str, Figure | None]] = {
    "newest": None,
    "most-popular": _month,
    "top-weekly": _week,
    "pricing-low-to-high": lambda model, _: usd_per_million(model, "prompt"),
    "pricing-high-to-low": lambda model, _: -usd_per_million(model, "prompt"),
    "context-high-to-low": _context,
    "throughput-high-to-low": _throughput,
    "latency-low-to-high": latency_s,
    # Benchmarks are not kept: no model has the figure.
    "intelligence-high-to-low": None,
    "coding-high-to-low": None,
    "agentic-high-to-low": None,
    "design-arena-elo-high-to-low": None,
}
SORTS: Final = tuple(_FIGURES)
# Those that need to know how often models are called.
BY_CALLS: Final = frozenset({"most-popular", "top-weekly"})
