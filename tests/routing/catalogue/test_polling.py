import logging
import threading
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django import Settings

from gateway.http.errors import Unavailable
from routing.catalogue import assembly, snapshot
from routing.catalogue.load import load_catalogue
from routing.catalogue.models import Endpoint
from routing.catalogue.snapshot import Catalogue, list_served_versions
from routing.catalogue.version import CatalogueServing, current_version

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
    def gone() -> assembly.Rows:
        raise OperationalError("the database is gone")

    load_catalogue(small)
    held = Catalogue()
    with monkeypatch.context() as broken:
        broken.setattr(snapshot, "read_rows", gone)
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

    def gone() -> int:
        looks.release()
        raise OperationalError("the database is gone")

    load_catalogue(small)
    held = Catalogue()
    before = held.current()
    settings.CATALOGUE_POLL_SECONDS = 0.01
    monkeypatch.setattr(snapshot, "current_version", gone)
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

        def told() -> None:
            report()
            with self._told:
                self._version = held.current().version
                self._told.notify_all()

        monkeypatch.setattr(held, "_report", told)

    def wait_for(self, version: int) -> None:
        with self._told:
            assert self._told.wait_for(lambda: self._version >= version, timeout=WAIT_S)
