"""Load balancing: the default order of one model's endpoints (inference reference 7.6 rule 3)."""

from collections.abc import Callable, Sequence
from decimal import Decimal

from routing.catalogue.entries import EndpointEntry

Random = Callable[[], float]


def price_of(endpoint: EndpointEntry) -> Decimal:
    """Prompt plus completion price per token, after discount."""
    prices = endpoint.prices
    assert prices is not None
    return (prices.prompt + prices.completion) * (1 - prices.discount)


def balanced(
    endpoints: Sequence[EndpointEntry],
    *,
    stable: Callable[[EndpointEntry], bool],
    random: Random,
) -> list[EndpointEntry]:
    """Stable endpoints first: one drawn with weight 1/price squared, the rest by price.

    `random` gives a float in [0, 1). Free endpoints win outright, evenly.
    """
    if len(endpoints) == 1:
        return list(endpoints)
    by_price = sorted(endpoints, key=lambda each: (price_of(each), each.tag))
    well = [each for each in by_price if stable(each)]
    ill = [each for each in by_price if each not in well]
    if len(well) > 1:
        first = _draw(well, random)
        well.remove(first)
        well.insert(0, first)
    return well + ill


def _draw(endpoints: Sequence[EndpointEntry], random: Random) -> EndpointEntry:
    prices = [float(price_of(each)) for each in endpoints]
    free = [each for each, price in zip(endpoints, prices, strict=True) if price == 0]
    if free:
        return free[int(random() * len(free))]
    # Relative to the cheapest, so that prices around 1e-7 do not overflow when squared.
    cheapest = min(prices)
    weights = [(cheapest / price) ** 2 for price in prices]
    mark = random() * sum(weights)
    for each, weight in zip(endpoints, weights, strict=True):
        mark -= weight
        if mark < 0:
            return each
    return endpoints[-1]
