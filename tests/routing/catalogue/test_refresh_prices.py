"""Prices from the book follow the book; prices set by hand stay; a file keeps which is which."""

import json
from typing import Any

import pytest
from django.test import Client

from routing.catalogue.load import load_catalogue
from routing.catalogue.models import Endpoint
from routing.catalogue.pricebook import book_prices
from routing.catalogue.snapshot import build_snapshot
from routing.catalogue.version import current_version
from routing.management.commands.dump_catalogue import dump_catalogue
from tests.routing.catalogue.conftest import run
from tests.support.admin_pages import page, read_form

pytestmark = [pytest.mark.django_db, pytest.mark.both]
OLD = {"prompt": "0.5", "completion": "0.25"}
TODAY = book_prices("openai", "gpt-4o")


def catalogue(**pricing: Any) -> dict[str, Any]:
    """An endpoint for each keyword, of that tag's variant."""
    own = [
        {"provider": "openai", "tag": f"openai/{tag}", "upstream_model": "gpt-4o", "pricing": price}
        for tag, price in pricing.items()
    ]
    return {
        "providers": [{"slug": "openai", "name": "OpenAI", "base_url": "http://127.0.0.1:9/v1"}],
        "models": [{"id": "openai/gpt-4o", "name": "GPT", "endpoints": own}],
    }


def refresh(*options: str) -> tuple[int, Any]:
    status, out, _ = run("refresh_prices", "--json", *options)
    return status, json.loads(out)


def prices() -> dict[str, Any]:
    return dict(Endpoint.objects.values_list("tag", "pricing"))


def age() -> None:
    """As if the book had said otherwise when the endpoints were loaded."""
    Endpoint.objects.update(pricing=OLD)


def test_only_what_came_from_the_book_is_refreshed_in_one_version() -> None:
    load_catalogue(catalogue(book="auto", more="auto", hand=OLD))
    age()
    version = current_version()

    status, told = refresh()

    assert status == 0
    assert prices() == {"openai/book": TODAY, "openai/more": TODAY, "openai/hand": OLD}
    assert told["version"] == current_version()
    assert current_version() > version
    named = {"model": "openai/gpt-4o", "tag": "openai/book"}
    assert told["drift"][0] == named | {"before": OLD, "after": TODAY}
    assert told["effective_at"] is not None
    assert build_snapshot().models["openai/gpt-4o"].endpoints[0].pricing == TODAY
    # A second refresh finds nothing and makes no version.
    status, again = refresh()
    assert (status, again["drift"], again["unchanged"], again["effective_at"]) == (0, [], 2, None)
    assert current_version() == told["version"]
    Endpoint.objects.filter(tag="openai/book").update(pricing=None)
    assert [each["before"] for each in refresh()[1]["drift"]] == [None]
    assert prices()["openai/book"] == TODAY


def test_check_shows_the_drift_and_writes_nothing() -> None:
    load_catalogue(catalogue(book="auto"))
    assert refresh("--check")[0] == 0
    age()
    version = current_version()

    status, told = refresh("--check")

    assert status == 1
    assert [each["tag"] for each in told["drift"]] == ["openai/book"]
    assert told["effective_at"] is None
    assert (current_version(), prices()) == (version, {"openai/book": OLD})


def test_what_left_the_book_keeps_its_price() -> None:
    load_catalogue(catalogue(book="auto"))
    Endpoint.objects.update(pricing=OLD, upstream_model="no-such-model")

    status, told = refresh()

    assert (status, told["drift"]) == (0, [])
    assert told["unknown"] == [{"model": "openai/gpt-4o", "tag": "openai/book"}]
    assert prices() == {"openai/book": OLD}


def test_a_dump_keeps_the_price_and_where_it_came_from() -> None:
    load_catalogue(catalogue(book="auto", hand=OLD))
    age()
    dumped = dump_catalogue()

    report = load_catalogue(dumped)

    assert (report["errors"], report["changed"]) == ([], [])
    sources = dict(Endpoint.objects.values_list("tag", "price_source"))
    assert sources == {"openai/book": "book", "openai/hand": "hand"}
    assert prices() == {"openai/book": OLD, "openai/hand": OLD}


def test_a_price_written_into_the_file_is_one_set_by_hand() -> None:
    load_catalogue(catalogue(book="auto"))

    load_catalogue(catalogue(book=OLD))

    assert refresh()[1]["unchanged"] == 0
    assert prices() == {"openai/book": OLD}


def test_a_price_changed_on_the_page_is_one_set_by_hand(admin_client: Client) -> None:
    load_catalogue(catalogue(book="auto"))
    row = Endpoint.objects.get()
    path = page(Endpoint, "change", row.pk)
    form = read_form(admin_client.get(path))
    answer = admin_client.post(path, form | {"pricing": json.dumps(OLD)})
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    row.refresh_from_db()
    assert (row.pricing, row.price_source) == (OLD, "hand")
