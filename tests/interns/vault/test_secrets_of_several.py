"""Secrets of several vaults: copies, and which one counts where there are several of a name."""

import uuid

import pytest

from interns.models import VaultSecret
from interns.vault.service import effective_secret
from tests.interns.vault.team import FIELDS, SHARED, Team, of, vault_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]
TOKEN = f"{SHARED}/github_token"


def test_copies_keep_value_and_hosts_and_stand_alone(team: Team) -> None:
    intern = team.intern()
    team.put(f"{SHARED}/a", "one", ["x.y", "z.y"])
    team.put(f"{SHARED}/b", "two")
    mine = team.put(f"{of(intern)}/b", "older")
    said = team.ok("POST", of(intern, "/secrets/copy"), {"names": ["b", "a"]})["data"]
    assert team.queries <= 6
    assert effective_secret(intern, "b", "api.example.com") == "two"
    assert effective_secret(intern, "a", "z.y") == "one"
    assert [each["name"] for each in said] == ["b", "a"]
    assert all(set(each) == FIELDS for each in said)
    assert said[1]["hosts"] == ["x.y", "z.y"]
    assert said[0]["created_at"] == mine["created_at"]
    assert said[0]["fingerprint"] != mine["fingerprint"]
    team.ask("DELETE", f"{SHARED}/a")
    assert team.names(of(intern)) == ["a", "b"]
    team.ask("DELETE", f"{of(intern)}/b")
    assert team.names() == ["b"]


def test_a_copy_is_all_or_nothing(team: Team) -> None:
    intern = team.intern()
    team.put(f"{SHARED}/a")
    said = team.refused(404, "POST", of(intern, "/secrets/copy"), {"names": ["a", "none"]})
    assert said == "Resource not found"
    assert team.names(of(intern)) == []
    team.put(f"{SHARED}/old")
    VaultSecret.objects.filter(name="old").update(hosts=None, fingerprint=None)
    listed = team.ok("GET", SHARED)["data"][1]
    assert (listed["hosts"], listed["fingerprint"]) == (None, None)
    said = team.refused(409, "POST", of(intern, "/secrets/copy"), {"names": ["a", "old"]})
    assert said == "Vault request conflicts with existing secrets"
    assert team.names(of(intern)) == []


def test_copies_name_1_to_100_different_secrets(team: Team) -> None:
    path = of(team.intern(), "/secrets/copy")
    many = [f"a{number}" for number in range(101)]
    for names in ([], ["a", "a"], ["A"], [1], ["a"] * 101, many):
        team.refused(400, "POST", path, {"names": names})
    for body in ({}, [], "{", {"names": ["a"], "hosts": ["a.b"]}):
        team.refused(400, "POST", path, body)


def test_the_intern_s_own_comes_before_the_attached_before_the_workspace_s(team: Team) -> None:
    lender = team.intern("lender")
    intern = team.intern(attached_vault_id=vault_of(lender).pk)
    for name in ("a", "b", "c"):
        team.put(f"{SHARED}/{name}", "shared", ["w.y"])
    for name in ("b", "c", "d"):
        team.put(f"{of(lender)}/{name}", "lent", ["l.y"])
    team.put(f"{of(intern)}/c", "own", ["o.y"])
    path = of(intern, "/effective-secrets")
    said = team.ok("GET", path)
    told = [(each["name"], each["scope"], each["hosts"]) for each in said["data"]]
    assert told == [
        ("a", "workspace", ["w.y"]),
        ("b", "attached", ["l.y"]),
        ("c", "intern", ["o.y"]),
        ("d", "attached", ["l.y"]),
    ]
    assert all(set(each) == FIELDS | {"scope"} for each in said["data"])
    assert said["has_more"] is False
    page = team.ok("GET", f"{path}?limit=1&offset=2")
    assert ([each["name"] for each in page["data"]], page["has_more"]) == (["c"], True)
    # The lender itself borrows nothing.
    scopes = {each["scope"] for each in team.ok("GET", of(lender, "/effective-secrets"))["data"]}
    assert scopes == {"intern", "workspace"}


def test_when_the_attached_vault_is_gone_there_are_none(team: Team) -> None:
    intern = team.intern(attached_vault_id=uuid.uuid4())
    team.put(TOKEN)
    team.put(f"{of(intern)}/a")
    path = of(intern, "/effective-secrets")
    assert team.refused(404, "GET", path) == "Resource not found"
    # Its own are still to be seen.
    assert team.names(of(intern)) == ["a"]


def test_a_vault_that_is_not_there_takes_nothing(team: Team) -> None:
    intern = team.intern(vault=False)
    assert team.names(of(intern)) == []
    team.refused(404, "PUT", f"{of(intern)}/a", {"value": "v", "hosts": ["a.b"]})
    team.put(TOKEN)
    team.refused(404, "POST", of(intern, "/secrets/copy"), {"names": ["github_token"]})
