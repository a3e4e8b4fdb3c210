import gc
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from routing.catalogue.load import load
from routing.catalogue.snapshot import build
from tests.support.promptness import in_time

MODELS = 2000
ENDPOINTS_EACH = 5
BUILD_S_MAX = 1.5
MEMORY_BYTES_MAX = 60_000_000


def big_catalogue() -> dict[str, Any]:
    """10,000 endpoints over 2,000 models, nearly every price its own."""
    providers = [
        {"slug": f"p{n}", "name": f"P{n}", "base_url": "http://127.0.0.1:9/v1", "credential": "x"}
        for n in range(ENDPOINTS_EACH)
    ]
    return {"providers": providers, "models": [model(n) for n in range(MODELS)]}


def model(n: int) -> dict[str, Any]:
    def endpoint(at: int) -> dict[str, Any]:
        pricing = {"prompt": f"0.{n + at:09d}", "completion": f"0.{n + 2 * at:09d}"}
        parameters = ["temperature", "max_tokens", "tools", "stop"][: at + 1]
        named = {"provider": f"p{at}", "upstream_model": f"m{n}"}
        return named | {"pricing": pricing, "supported_parameters": parameters}

    endpoints = [endpoint(at) for at in range(ENDPOINTS_EACH)]
    return {"id": f"a/m{n}", "name": f"M{n}", "description": "word " * 60, "endpoints": endpoints}


@pytest.mark.nightly
@pytest.mark.both
@pytest.mark.django_db
def test_ten_thousand_endpoints_are_built_in_time_and_in_little_memory() -> None:
    assert load(big_catalogue())["errors"] == []

    begun = time.perf_counter()
    seen = build()
    took_s = time.perf_counter() - begun

    assert seen.endpoint_count == MODELS * ENDPOINTS_EACH
    in_time(took_s, BUILD_S_MAX)
    tracemalloc.start()
    kept = build()
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept.endpoint_count == seen.endpoint_count
    assert held_bytes <= MEMORY_BYTES_MAX


@pytest.fixture
def unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.django_db
@pytest.mark.usefixtures("unfrozen")
def test_building_leaves_the_garbage_collector_as_it_was(small: dict[str, Any]) -> None:
    load(small)

    build()

    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.django_db
@pytest.mark.usefixtures("unfrozen")
def test_what_a_web_worker_has_frozen_stays_so(small: dict[str, Any]) -> None:
    """Thawed, all of the process would be gone through in every full collection."""
    load(small)
    gc.collect()
    gc.freeze()
    frozen = gc.get_freeze_count()

    kept = build()

    assert gc.isenabled()
    # What was frozen can still end by itself; nearly all of it is modules and classes.
    assert gc.get_freeze_count() > frozen * 0.9
    assert kept.endpoint_count
    assert not any(each is kept for each in gc.get_objects())
