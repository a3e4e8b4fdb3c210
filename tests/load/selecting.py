"""CPU of choosing, without HTTP: `python -m tests.load.selecting SECONDS`.

Times what happens to every request between its body's end and its first attempt: resolve, policy,
select, and the trace that is stored of it. Prints a `Choosing` as JSON.
"""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.load.apart import print_measured, timed_us

if TYPE_CHECKING:
    from routing.catalogue.assembly import Rows
    from routing.entities.entries import Snapshot

ENDPOINTS: Final = 8
LARGE_MODELS, LARGE_ENDPOINTS_EACH = 2000, 5
MODEL: Final = "bench/eight"
AUTO: Final = "router/auto"
# Nobody asks for the same length twice; what is remembered of one request must not serve the next.
_LENGTHS: Final = count(10)


@dataclass(frozen=True)
class Choosing:
    """Microseconds of CPU for one choice: of eight endpoints, of the same in a large catalogue, and
    by `router/auto` over that."""

    one_us: float
    large_us: float
    auto_us: float


def rows_of(models: int, endpoints_each: int) -> "Rows":
    """A catalogue with so many models beside the one of eight endpoints; nearly every price differs
    from every other."""
    from routing.catalogue.assembly import ENDPOINT_FIELDS, MODEL_FIELDS, PROVIDER_FIELDS, Rows

    providers = [_provider(pk) for pk in range(1, max(ENDPOINTS, endpoints_each) + 1)]
    chosen = [(MODEL, ENDPOINTS), *((f"fill/m{n}", endpoints_each) for n in range(models))]
    named = list(enumerate(chosen, start=1))
    places = [(pk, place) for pk, (_, each) in named for place in range(1, each + 1)]
    ends = [{"pk": pk, **_endpoint(*at)} for pk, at in enumerate(places, start=1)]
    return Rows(
        version=1,
        providers=_in_order(PROVIDER_FIELDS, providers),
        models=_in_order(MODEL_FIELDS, [_model(pk, slug) for pk, (slug, _) in named]),
        aliases=[],
        endpoints=_in_order(ENDPOINT_FIELDS, ends),
    )


def _in_order(fields: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What a row does not say is null."""
    return [tuple(row.get(field) for field in fields) for row in rows]


def _provider(pk: int) -> dict[str, Any]:
    flags = dict.fromkeys(("collects_data", "zdr", "moderated", "supports_cancellation"), False)
    words = {"slug": f"p{pk}", "name": f"P{pk}", "kind": "openai"}
    return {"pk": pk, "base_url": "http://127.0.0.1:9/v1", "status": 0, **flags, **words}


def _model(pk: int, slug: str) -> dict[str, Any]:
    flags = {"visible": True, "decisions": True, "distillable": False}
    lists = {"input_modalities": ["text"], "output_modalities": ["text"], "categories": []}
    names = dict.fromkeys(("slug", "canonical_slug", "name"), slug) | {"description": "word " * 60}
    sizes = {"created": 1_700_000_000 + pk, "context_length": 128_000}
    return {"pk": pk, **sizes, **flags, **lists, **names}


def _endpoint(model_pk: int, place: int) -> dict[str, Any]:
    price = f"0.{model_pk * 10 + place:09d}"
    keys = {"model_id": model_pk, "provider_id": place, "tag": f"p{place}"}
    costs = {"pricing": {"prompt": price, "completion": price}, "max_completion_tokens": 16_384}
    parameters = ["temperature", "max_tokens", "tools", "stop"]
    takes = {"supported_parameters": parameters, "extra_parameters": []}
    rest = {"supports_implicit_caching": False, "status": 0, "tier": "default", "region": "global"}
    return {**keys, "upstream_model": f"m{model_pk}", **costs, **takes, **rest}


def chooser(snapshot: "Snapshot", reference: str) -> Callable[[], dict[str, Any]]:
    """What one request costs: everything that is done with the values of selection. It gives the
    trace of the choice."""
    from routing.selection.auto import AutoSettings
    from routing.selection.resolution import build_policy, resolve_models
    from routing.selection.select import select
    from routing.selection.trace import TracedAttempt, build_trace, freeze_state
    from routing.selection.types import EndpointState, EndpointStats, Percentiles, Requirements

    chance = Random(7).random
    known = Percentiles(0.5, 0.7, 0.9, 1.5)
    figures = {
        each.pk: EndpointStats(known, known, 1.0, 99.9, 99.9, 99.9, calls=100 + each.pk)
        for model in snapshot.models.values()
        for each in model.endpoints
    }
    state = EndpointState(figures=figures)
    kinds, supplied = frozenset({"openai"}), frozenset({"temperature", "max_tokens"})

    def choose() -> dict[str, Any]:
        ask = Requirements(
            kinds=kinds,
            supplied_parameters=supplied,
            required_parameters=supplied,
            prompt_tokens=next(_LENGTHS) % 1000,
            output_tokens=400,
        )
        found = resolve_models(snapshot, [reference], ask, auto=AutoSettings(), random=chance)
        policy = build_policy(None, resolution=found)
        plan = select(found.models, ask, policy, state, random=chance)
        return build_trace(
            plan,
            ask,
            policy,
            freeze_state(plan, state),
            models=[model.id for model in found.models],
            requested=[reference],
            strategy=found.strategy,
            attempts=[TracedAttempt(plan.order[0].pk, None)],
            chosen=plan.order[0].pk,
        )

    return choose


def measure_choosing(seconds: float) -> Choosing:
    from routing.catalogue.assembly import assemble

    small = assemble(rows_of(0, 0))
    large = assemble(rows_of(LARGE_MODELS, LARGE_ENDPOINTS_EACH))
    choosers = [chooser(small, MODEL), chooser(large, MODEL), chooser(large, AUTO)]
    for choose in choosers:
        timed_us(choose, seconds=seconds / 10)
    # As a web worker does once it has loaded (`gateway.server.worker`).
    gc.collect()
    gc.freeze()
    return Choosing(*(timed_us(choose, seconds=seconds / 3) for choose in choosers))


if __name__ == "__main__":
    print_measured(measure_choosing)
