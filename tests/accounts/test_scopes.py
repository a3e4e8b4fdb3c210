"""What management keys with scopes may do, and keys for some models and addresses."""

from itertools import chain
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.test import Client
from pytest_django import Settings

from accounts.authentication import forget_keys, uses
from accounts.caller import read_caller
from accounts.keystring import hash_key
from accounts.models import ApiKey
from accounts.scopes import SCOPES, find_area
from accounts.services.keys import create_key
from tests.accounts.office import KEYS, Office, key_path
from tests.support.access_table import TABLE

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def make_scoped_key(office: Office, *scopes: str, **more: Any) -> str:
    """The string of a management key with these scopes; without any it may do everything."""
    place: Any = {"account": office.account, "workspace": None}
    return create_key(**place, name="s", scopes=list(scopes) or None, **more)[1]


def test_a_refusal_names_the_scope_that_is_missing(office: Office) -> None:
    key = make_scoped_key(office, "read")
    code, said = office.call("POST", KEYS, {"name": "k"}, key=key)

    assert (code, said["error"]["message"]) == (403, 'This management key lacks the scope "keys"')
    assert said["error"]["metadata"]["required_scope"] == "keys"
    answer: Any = Client().get("/scim/v2/Users", headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200
    answer = Client().post("/scim/v2/Users", headers={"Authorization": f"Bearer {key}"})
    assert "scim" in answer.json()["detail"]


def test_a_key_says_its_scopes(office: Office) -> None:
    key = make_scoped_key(office, "billing", allowed_ips=["127.0.0.0/8"])
    code, said = office.call("GET", "/key", key=key)
    assert code == 200
    assert (said["data"]["scopes"], said["data"]["allowed_ips"]) == (["billing"], ["127.0.0.0/8"])
    assert office.ok("GET", "/key")["data"]["scopes"] is None


def test_each_scope_opens_paths_that_are_there() -> None:
    """What no scope opens is refused to keys with scopes, so a new path is closed at first."""
    opened = {find_area(row.path) for methods in TABLE.values() for row in chain(*methods.values())}

    assert opened - {None} == set(SCOPES) - {"read"}


def test_what_no_scope_opens_needs_a_key_without_any(office: Office) -> None:
    path, body = "/generation/feedback", {"generation_id": "gen-x", "category": "other"}
    key = make_scoped_key(office, *SCOPES)
    code, said = office.call("POST", path, body, key=key)

    assert (code, said["error"]["metadata"]["required_scope"]) == (403, None)
    assert office.call("POST", path, body)[0] == 404


def test_only_management_keys_have_scopes(office: Office) -> None:
    workspace = office.account.workspaces.get()
    place: Any = {"account": office.account, "workspace": workspace}
    with pytest.raises(IntegrityError), transaction.atomic():
        create_key(**place, name="k", scopes=["read"])


def test_the_use_of_a_management_key_is_noted(office: Office) -> None:
    key = make_scoped_key(office, "read")
    office.call("GET", KEYS, key=key)
    uses.write()
    assert ApiKey.objects.get(hash=hash_key(key)).last_used_at is not None


def test_a_key_opens_from_its_addresses_only(office: Office, settings: Settings) -> None:
    made = office.new(allowed_ips=["192.0.2.7", "2001:db8::/32", "192.0.2.7"])
    assert made["data"]["allowed_ips"] == ["192.0.2.7/32", "2001:db8::/32"]

    def ask(address: str) -> Any:
        forget_keys()
        headers = {"Authorization": f"Bearer {made['key']}"}
        return Client().get("/api/v1/key", headers=headers, REMOTE_ADDR=address)

    codes = [ask(each).status_code for each in ("192.0.2.7", "2001:db8::1", "::ffff:192.0.2.7")]
    assert codes == [200, 200, 200]
    refused = ask("192.0.2.8")
    assert refused.status_code == 403
    assert refused.json()["error"]["message"] == "This key cannot be used from this address"
    assert office.ok("PATCH", key_path(made), {"allowed_ips": None})["data"]["allowed_ips"] is None
    assert ask("192.0.2.8").status_code == 200
    assert "allowed_ips" in office.expect_refusal(
        400, "POST", KEYS, {"name": "k", "allowed_ips": ["x"]}
    )


def test_a_keys_own_models_are_held_to_like_a_guardrails(office: Office) -> None:
    made = office.new()
    ApiKey.objects.filter(hash=made["data"]["hash"]).update(allowed_models=["acme/small-01"])

    caller = read_caller(made["data"]["hash"])
    assert caller is not None
    assert caller.guard is not None
    assert caller.guard.rules.allowed_models == frozenset({"acme/small-01"})
    plain = read_caller(office.new()["data"]["hash"])
    assert plain is not None
    assert (plain.guard, plain.allowed_networks, plain.scopes) == (None, None, None)


def test_the_command_makes_a_key_with_bounds(office: Office) -> None:
    options = {"account": office.account.name, "scope": ["read"], "days": 30}
    call_command("create_management_key", **options, allowed_ip=["10.0.0.0/8"])
    key = ApiKey.objects.latest("pk")
    assert (key.scopes, key.allowed_ips) == (["read"], ["10.0.0.0/8"])
    assert (key.is_management, key.workspace) == (True, None)
    assert key.expires_at is not None
