import gc
import logging
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection
from pytest_django import DjangoAssertNumQueries, Settings

from gateway.http.errors import Unavailable
from routing.catalogue import assembly, snapshot
from routing.catalogue.load import load_catalogue
from routing.catalogue.models import Endpoint, Model, Provider
from routing.catalogue.snapshot import Catalogue, build_snapshot, list_served_versions
from routing.catalogue.version import CatalogueServing, current_version
from tests.support.promptness import in_time


@pytest.mark.both
@pytest.mark.django_db
def test_an_endpoint_inherits_what_it_does_not_say_itself(small: dict[str, Any]) -> None:
    small["providers"][0] |= {"collects_data": False, "zdr": True, "moderated": True}
    small["models"][0] |= {"context_length": 8000, "input_modalities": ["text", "image"]}
    endpoints = small["models"][0]["endpoints"]
    endpoints.append({**endpoints[0], "tag": "acme/flex", "zdr": False, "moderated": False})
    endpoints[1] |= {"context_length": 4000, "input_modalities": ["text"]}
    load_catalogue(small)

    plain, own = build_snapshot().models["acme/one"].endpoints

    # A tier is read from the tag.
    assert (plain.tier, own.tier) == ("default", "flex")
    assert (plain.zdr, plain.moderated, plain.collects_data) == (True, True, False)
    assert (own.zdr, own.moderated, own.collects_data) == (False, False, False)
    assert (plain.context_length, own.context_length) == (8000, 4000)
    assert (plain.input_modalities, own.input_modalities) == (("text", "image"), ("text",))


@pytest.mark.django_db
def test_an_endpoint_is_no_better_than_its_provider(small: dict[str, Any]) -> None:
    small["providers"][0]["status"] = -3
    load_catalogue(small)

    endpoint = build_snapshot().models["acme/one"].endpoints[0]

    assert endpoint.status == -3
    assert not endpoint.routable


@pytest.mark.django_db
def test_the_listing_is_newest_first_without_hidden_unpriced_and_disabled_models(
    small: dict[str, Any],
) -> None:
    first = small["models"][0]
    ends = first["endpoints"]
    small["models"] += [
        {**first, "id": "acme/old", "created": 1},
        {**first, "id": "acme/new", "created": 2**35},
        {**first, "id": "acme/hidden", "visible": False},
        {**first, "id": "acme/unpriced", "endpoints": [{**ends[0], "pricing": None}]},
        {**first, "id": "acme/disabled", "endpoints": [{**ends[0], "status": -5}]},
        {**first, "id": "acme/empty", "endpoints": []},
    ]
    load_catalogue(small)

    seen = build_snapshot()

    assert [model.id for model in seen.listing] == ["acme/new", "acme/one", "acme/old"]
    assert seen.models["acme/hidden"].endpoints[0].routable
    assert not seen.models["acme/unpriced"].endpoints[0].routable
    assert seen.endpoint_count == 6


@pytest.mark.django_db
def test_a_price_that_cannot_be_billed_leaves_the_endpoint_without_one(
    small: dict[str, Any],
) -> None:
    load_catalogue(small)
    Endpoint.objects.update(pricing={"prompt": "-1", "completion": "1"})

    seen = build_snapshot()

    assert seen.models["acme/one"].endpoints[0].prices is None
    assert seen.problems == (
        "acme/one at acme has no price: prompt: expected 0 to 10000 USD, got -1",
    )


@pytest.mark.django_db
def test_a_credential_is_opened_never_shown_and_moved_to_another_row_switches_that_one_off(
    small: dict[str, Any],
) -> None:
    small["providers"][0]["credential"] = "sk-very-secret"
    load_catalogue(small)
    provider = build_snapshot().providers["acme"]
    assert provider.credential == "sk-very-secret"
    assert "secret" not in repr(provider)
    assert "secret" not in (Provider.objects.get().credential_sealed or "")

    Provider.objects.update(slug="thief")

    seen = build_snapshot()
    assert seen.providers["thief"].credential is None
    assert not seen.models["acme/one"].endpoints[0].routable
    assert seen.problems == (
        "provider thief is off: its credential does not open with this master key and row",
    )


@pytest.mark.django_db
def test_the_number_of_queries_does_not_grow_with_the_catalogue(
    small: dict[str, Any], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    first = small["models"][0]
    small["models"] += [{**first, "id": f"acme/{n}", "aliases": [f"a/{n}"]} for n in range(20)]
    load_catalogue(small)

    with django_assert_num_queries(6):
        build_snapshot()


def change_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another connection commit a change after the version is read, before the rows are."""

    def change() -> None:
        Model.objects.update(name="changed")
        connection.close()

    def version_then_change() -> int:
        version = current_version()
        other = threading.Thread(target=change)
        other.start()
        other.join()
        return version

    monkeypatch.setattr(assembly, "current_version", version_then_change)


@pytest.mark.both
@pytest.mark.django_db(transaction=True)
def test_version_and_rows_are_of_one_moment(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_catalogue(small)
    change_beside(monkeypatch)

    rows = assembly.read_rows()

    assert rows.version < current_version()
    assert dict(zip(assembly.MODEL_FIELDS, rows.models[0], strict=True))["name"] == "One"


# --- Large catalogues, and the garbage collector --------------------------------------------------

MODELS, ENDPOINTS_EACH = 2000, 5
BUILD_S_MAX, MEMORY_BYTES_MAX = 1.5, 60_000_000


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
    assert load_catalogue(big_catalogue())["errors"] == []

    begun = time.perf_counter()
    seen = build_snapshot()
    took_s = time.perf_counter() - begun

    assert seen.endpoint_count == MODELS * ENDPOINTS_EACH
    in_time(took_s, BUILD_S_MAX)
    tracemalloc.start()
    kept = build_snapshot()
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
def test_what_a_web_worker_has_frozen_stays_so(small: dict[str, Any]) -> None:
    """Thawed, all of the process would be gone through in every full collection."""
    load_catalogue(small)
    gc.collect()
    gc.freeze()
    frozen = gc.get_freeze_count()

    kept = build_snapshot()

    assert gc.isenabled()
    # What was frozen can still end by itself; nearly all of it is modules and classes.
    assert gc.get_freeze_count() > frozen * 0.9
    assert kept.endpoint_count
    assert not any(each is kept for each in gc.get_objects())


# --- Polling --------------------------------------------------------------------------------------


WAIT_S = 10


@pytest.mark.django_db
def test_a_change_is_seen_at_the_next_look_and_the_old_view_stays_whole(
    small: dict[str, Any],
) -> None:
    load_catalogue(small)
    held = Catalogue()
    before = held.current()

    assert not held.refresh_if_changed()
    assert held.current() is before

    Endpoint.objects.update(status=-5)

    assert held.refresh_if_changed()
    assert before.models["acme/one"].endpoints[0].status == 0
    assert held.current().models["acme/one"].endpoints[0].status == -5


@pytest.mark.django_db
def test_a_catalogue_that_never_loaded_is_unavailable_and_heals(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_query() -> assembly.Rows:
        raise OperationalError("the database is gone")

    load_catalogue(small)
    held = Catalogue()
    with monkeypatch.context() as broken:
        broken.setattr(snapshot, "read_rows", fail_query)
        with pytest.raises(Unavailable):
            held.current()

    assert "acme/one" in held.current().models


@pytest.mark.both
@pytest.mark.django_db(transaction=True)
def test_polling_follows_changes_and_reports_what_is_served(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.CATALOGUE_POLL_SECONDS = 0.01
    load_catalogue(small)
    held = Catalogue()
    reported = Reports(held, monkeypatch)
    held.start_polling()
    try:
        reported.wait_for(current_version())
        load_catalogue({**small, "models": [{**small["models"][0], "name": "Changed"}]})
        reported.wait_for(current_version())

        assert held.current().models["acme/one"].name == "Changed"
        assert list(list_served_versions().values()) == [current_version()]
    finally:
        held.stop_polling()

    assert not CatalogueServing.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_trouble_is_told_once_and_the_old_view_goes_on(
    small: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    settings: Settings,
) -> None:
    looks = threading.Semaphore(0)

    def fail_query() -> int:
        looks.release()
        raise OperationalError("the database is gone")

    load_catalogue(small)
    held = Catalogue()
    before = held.current()
    settings.CATALOGUE_POLL_SECONDS = 0.01
    monkeypatch.setattr(snapshot, "current_version", fail_query)
    with caplog.at_level(logging.ERROR):
        held.start_polling()
        for _ in range(3):
            assert looks.acquire(timeout=WAIT_S)
        held.stop_polling()

    assert held.current() is before
    assert [record.message for record in caplog.records] == [
        "catalogue not refreshed: the database is gone"
    ]


class Reports:
    """Waits until a catalogue has reported a version, without guessing how long that takes."""

    def __init__(self, held: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
        self._told = threading.Condition()
        self._version = -1
        report = held._report

        def report_and_notify() -> None:
            report()
            with self._told:
                self._version = held.current().version
                self._told.notify_all()

        monkeypatch.setattr(held, "_report", report_and_notify)

    def wait_for(self, version: int) -> None:
        with self._told:
            assert self._told.wait_for(lambda: self._version >= version, timeout=WAIT_S)
