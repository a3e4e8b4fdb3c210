import copy
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from routing.catalogue.files import demo_catalogue, parse
from routing.catalogue.load import load_catalogue, wait_until_served
from routing.catalogue.models import Endpoint, Model, Provider
from routing.catalogue.snapshot import STALE_S, build_snapshot
from routing.catalogue.version import CatalogueServing, current_version
from routing.management.commands.dump_catalogue import dump_catalogue

pytestmark = pytest.mark.django_db


def endpoint_of(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["models"][0]["endpoints"][0]
    return found


@pytest.mark.both
def test_loading_twice_changes_nothing_the_second_time(conformance_data: dict[str, Any]) -> None:
    first = load_catalogue(conformance_data)
    sealed = Provider.objects.get(slug="alpha").credential_sealed

    second = load_catalogue(conformance_data)

    assert second == {**first, "added": [], "unchanged": first["added"]}
    assert Provider.objects.get(slug="alpha").credential_sealed == sealed


def test_the_demo_loads_cleanly_and_says_that_it_is_simulated() -> None:
    report = load_catalogue(demo_catalogue("http://127.0.0.1:9999"))

    assert (report["errors"], report["warnings"]) == ([], [])
    seen = build_snapshot()
    assert len(seen.models["simulated/small"].endpoints) == 3
    assert seen.providers["simulated-swift"].base_url == "http://127.0.0.1:9999/swift/v1"
    ways = {model.id: {each.decides for each in model.endpoints} for model in seen.listing}
    assert ways["simulated/judge"] == {"native"}
    assert ways["simulated/small"] == {"logprobs"}
    assert ways["simulated/reasoner"] == {"schema"}
    assert all("simulated" in model.description for model in seen.listing)
    assert all(provider.name.startswith("Simulated") for provider in seen.providers.values())
    assert all(end.routable for model in seen.listing for end in model.endpoints)


@pytest.mark.both
def test_a_temperature_of_decisions_reaches_requests_and_has_bounds_here_and_in_the_database(
    small: dict[str, Any],
) -> None:
    for temperature in (0, 0.049, 20.1, float("inf"), "1"):
        small["models"][0]["decisions_temperature"] = temperature
        [error] = load_catalogue(small)["errors"]
        assert error.startswith("models[0].decisions_temperature: ")
    for temperature in (0.05, 1, 20):
        small["models"][0]["decisions_temperature"] = temperature
        load_catalogue(small)
        assert build_snapshot().models["acme/one"].decisions_temperature == temperature
    for temperature in (0, -1, 21):
        with pytest.raises(IntegrityError), transaction.atomic():
            Model.objects.update(decisions_temperature=temperature)


@pytest.mark.both
def test_a_check_writes_nothing_and_only_what_differs_is_changed(small: dict[str, Any]) -> None:
    report = load_catalogue(small, check=True)
    assert report["added"] == ["provider acme", "model acme/one", "endpoint acme/one at acme"]
    assert report["version"] == current_version() == 0
    assert not Provider.objects.exists()
    load_catalogue(small)
    small["providers"][0]["name"] = "Acme Inc"
    endpoint_of(small)["pricing"]["prompt"] = "0.000003"

    report = load_catalogue(small)

    assert report["changed"] == ["provider acme", "endpoint acme/one at acme"]
    assert report["unchanged"] == ["model acme/one"]
    assert Endpoint.objects.get().pricing == {"prompt": "0.000003", "completion": "0.000002"}


def test_without_pruning_what_the_file_leaves_out_stays(
    conformance: dict[str, Any], small: dict[str, Any]
) -> None:
    report = load_catalogue(small)

    assert report["disabled"] == []
    assert build_snapshot().models["acme/solo"].endpoints[0].routable


@pytest.mark.both
def test_pruning_disables_what_the_file_leaves_out_and_naming_it_again_brings_it_back(
    conformance_data: dict[str, Any],
) -> None:
    load_catalogue(conformance_data)
    fewer = copy.deepcopy(conformance_data)
    del fewer["models"][0]["endpoints"][1]
    fewer["models"] = fewer["models"][:2]
    fewer["providers"] = fewer["providers"][:2]

    report = load_catalogue(fewer, prune=True)

    assert report["disabled"] == [
        *("provider delta", "provider gamma", "provider typesafe"),
        *("model acme/solo", "model acme/text", "model typesafe/jev-1.13"),
        *("endpoint acme/small at beta", "endpoint acme/solo at gamma"),
        *("endpoint acme/text at delta", "endpoint typesafe/jev-1.13 at typesafe"),
    ]
    assert load_catalogue(fewer, prune=True)["disabled"] == []
    assert [model.id for model in build_snapshot().listing] == ["acme/small", "acme/small:free"]

    load_catalogue(conformance_data)

    assert len(build_snapshot().listing) == 5
    assert all(end.routable for model in build_snapshot().listing for end in model.endpoints)


# What is changed of the endpoint or of the provider, and the fault.
BENT_ENDPOINTS: list[tuple[dict[str, Any], str]] = [
    ({"provider": "no", "tag": "no"}, ".provider: no provider 'no' here or in the database"),
    ({"pricing": {"completion": "1"}}, ".pricing.prompt: a price is required (0 when it is free)"),
    ({"colour": "red"}, ".colour: unknown key"),
    ({"tag": "other/x"}, ": the tag must be acme or acme/variant"),
    ({"status": 1}, ".status: expected one of 0, -1, -2, -3, -5, -10, got 1"),
]
BENT_PROVIDERS: list[tuple[dict[str, Any], str]] = [
    ({"credential": "env:NO_SUCH"}, ".credential: the environment variable NO_SUCH is not set"),
    ({"base_url": "file:///"}, ".base_url: expected a URL that begins with http:// or https://"),
]


def test_a_fault_is_told_with_its_place_and_nothing_is_written(small: dict[str, Any]) -> None:
    def is_only_fault(error: str, data: dict[str, Any]) -> None:
        assert load_catalogue(data)["errors"] == [error]
        assert not Provider.objects.exists()

    for changes, error in BENT_ENDPOINTS:
        bent = copy.deepcopy(small)
        endpoint_of(bent).update(changes)
        is_only_fault(f"models[0].endpoints[0]{error}", bent)
    for changes, error in BENT_PROVIDERS:
        bent = small | {"providers": [small["providers"][0] | changes]}
        is_only_fault(f"providers[0]{error}", bent)
    [model], own = small["models"], endpoint_of(small)
    twice = "'acme' already stands at models[0].endpoints[0].tag"
    bent = small | {"models": [model | {"endpoints": [own, own]}]}
    is_only_fault(f"models[0].endpoints[1].tag: {twice}", bent)
    bent = small | {"models": [model, model]}
    is_only_fault("models[1].id: 'acme/one' already stands at models[0].id", bent)
    others = [{"id": f"acme/{n}", "name": "n", "aliases": ["x/y"]} for n in "ab"]
    bent = small | {"models": [model, *others]}
    is_only_fault("models[2].aliases: 'x/y' already stands at models[1].aliases", bent)


def test_all_faults_are_told_at_once(small: dict[str, Any]) -> None:
    small["providers"][0]["slug"] = "No Slug"
    small["models"][0]["id"] = "no-author"
    del small["models"][0]["name"]

    places = [error.partition(":")[0] for error in load_catalogue(small)["errors"]]
    assert places == ["providers[0].slug", "models[0].id", "models[0].name"]


def test_a_file_of_another_shape_is_an_error_and_no_crash() -> None:
    documents: list[Any] = [[], "text", 5, {"provider": []}, {"models": {}}]
    for document in documents:
        assert len(load_catalogue(document)["errors"]) == 1


def test_an_endpoint_may_use_a_provider_that_is_already_there(small: dict[str, Any]) -> None:
    load_catalogue({"providers": small["providers"]})

    assert load_catalogue({"models": small["models"]})["errors"] == []


def test_auto_takes_the_price_from_the_book(small: dict[str, Any]) -> None:
    small["providers"][0]["slug"] = "openai"
    endpoint_of(small).update(provider="openai", upstream_model="gpt-4o", pricing="auto")
    endpoints = small["models"][0]["endpoints"]
    endpoints.append({**endpoints[0], "tag": "openai/x", "upstream_model": "nobody-knows-me"})
    endpoints.append({"provider": "openai", "tag": "openai/y", "upstream_model": "m"})

    report = load_catalogue(small)

    known, unknown, unpriced = build_snapshot().models["acme/one"].endpoints
    assert known.prices is not None
    assert unknown.prices is None
    assert report["warnings"] == [
        "models[0].endpoints[1]: endpoint acme/one at openai/x has no price and is not used; "
        "the price book has none",
        "models[0].endpoints[2]: endpoint acme/one at openai/y has no price and is not used; "
        "give pricing",
    ]
    assert not unpriced.routable


def test_a_credential_is_read_kept_replaced_and_removed(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_stored() -> str | None:
        return Provider.objects.get().credential()

    provider = small["providers"][0]
    monkeypatch.setenv("CATALOGUE_TEST_KEY", "from the environment")
    provider["credential"] = "env:CATALOGUE_TEST_KEY"
    load_catalogue(small)
    assert read_stored() == "from the environment"

    del provider["credential"]
    assert load_catalogue(small)["changed"] == []
    assert read_stored() == "from the environment"

    provider["credential"] = "${NOT_EXPANDED}"
    assert load_catalogue(small)["changed"] == ["provider acme"]
    assert read_stored() == "${NOT_EXPANDED}"

    provider["credential"] = None
    assert load_catalogue(small)["changed"] == ["provider acme"]
    assert read_stored() is None


def test_aliases_are_added_moved_and_removed(small: dict[str, Any]) -> None:
    first = small["models"][0]
    small["models"].append({"id": "acme/two", "name": "Two"})
    first["aliases"] = ["x/a", "x/b"]
    load_catalogue(small)

    first["aliases"] = ["x/a", "x/c"]
    small["models"][1]["aliases"] = ["x/b"]
    report = load_catalogue(small)

    assert report["changed"] == ["model acme/one", "model acme/two"]
    assert dict(build_snapshot().aliases) == {
        "x/a": "acme/one",
        "x/c": "acme/one",
        "x/b": "acme/two",
    }


def test_waiting_is_for_live_processes_that_serve_less() -> None:
    report = CatalogueServing.objects.create
    now = timezone.now()
    report(process="up to date", version=7, seen_at=now)
    report(process="killed", version=3, seen_at=now - timedelta(seconds=STALE_S + 1))

    assert wait_until_served(7, timeout_s=0)
    assert not wait_until_served(8, timeout_s=0)


def test_a_day_in_yaml_becomes_seconds(small: dict[str, Any]) -> None:
    small["models"][0]["created"] = parse("2026-01-01")
    small["models"][0]["expiration_date"] = parse("2027-01-01")

    assert load_catalogue(small)["errors"] == []
    assert Model.objects.get().created == 1_767_225_600
    assert Model.objects.get().expiration_date == "2027-01-01"
    # The day on which a model was first loaded stays.
    del small["models"][0]["created"]
    assert load_catalogue(small)["changed"] == []
    assert Model.objects.get().created == 1_767_225_600


@pytest.mark.both
def test_a_pool_of_credentials_loads_dumps_and_loads_back_unchanged(small: dict[str, Any]) -> None:
    limits = [{"requests_per_minute": 5, "weights": {"acme/*": 2}}]
    small["providers"][0]["credentials"] = [
        {"label": "a", "credential": "secret-of-a", "weight": 3},
        {"label": "b", "credential": "secret-of-b", "rate_limits": limits},
        {"label": "c", "credential": "secret-of-c", "weight": 0},
    ]
    assert load_catalogue(small)["errors"] == []

    pool = build_snapshot().providers["acme"].credentials
    assert [(each.label, each.secret, each.weight) for each in pool] == [
        ("a", "secret-of-a", 3),
        ("b", "secret-of-b", 1),
    ]
    [rule] = pool[1].rate_rules
    assert (rule.requests_per_minute, rule.weights) == (5, (("acme/*", 2),))
    assert "secret" not in repr(pool)
    dump = dump_catalogue()
    assert "secret" not in str(dump)
    assert (load_catalogue(dump)["changed"], load_catalogue(dump)["added"]) == ([], [])

    dump["providers"][0]["credentials"] = [{"label": "b", "weight": 2}]
    assert load_catalogue(dump)["disabled"] == ["credential acme/a", "credential acme/c"]
    pool = build_snapshot().providers["acme"].credentials
    assert [(each.label, each.secret, each.weight) for each in pool] == [("b", "secret-of-b", 2)]


def test_a_pooled_credential_needs_its_content_and_a_name_of_its_own(small: dict[str, Any]) -> None:
    small["providers"][0]["credentials"] = [
        {"label": "a"},
        {"label": "b", "credential": "env:NOT_SET_ANYWHERE"},
        {"label": "b", "credential": "x"},
    ]
    errors = load_catalogue(small)["errors"]
    assert [error.partition(":")[0] for error in errors] == [
        "providers[0].credentials[2].label",
        "providers[0].credentials[0].credential",
        "providers[0].credentials[1].credential",
    ]
