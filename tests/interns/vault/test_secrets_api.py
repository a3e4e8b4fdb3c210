"""/vault over HTTP: what is stored, listed, copied and deleted, and what wrong requests get."""

import hashlib
import hmac
import re
import uuid
from typing import Any

import pytest

from accounts.models import Account, AuditRecord
from interns.models import Intern, Vault
from interns.vault.sealing import open_data_key
from tests.interns.vault.team import HOSTS, SHARED, Team, open_team, vault_of, vault_path

pytestmark = pytest.mark.django_db
TOKEN = f"{SHARED}/github_token"
GOOD: dict[str, Any] = {"PUT": {"value": "v", "hosts": HOSTS}, "POST": {"names": ["a"]}}


def test_what_is_stored_is_told_without_its_value(team: Team) -> None:
    made = team.put(TOKEN, "canary-value", ["API.GitHub.com.", "api.github.com", "a.b"])
    assert made["hosts"] == ["api.github.com", "a.b"]
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", made["fingerprint"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", made["created_at"])
    listed = team.ok("GET", SHARED)
    assert listed == {"data": [made], "has_more": False}
    assert "canary-value" not in repr(listed)
    assert team.queries <= 3


def test_replacing_keeps_when_it_was_first_stored(team: Team) -> None:
    first, again = team.put(TOKEN, "one"), team.put(TOKEN, "one")
    other = team.put(TOKEN, "two", ["x.y"])
    assert team.queries <= 6
    assert again == first
    assert other == first | {"fingerprint": other["fingerprint"], "hosts": ["x.y"]}
    assert team.names() == ["github_token"]
    # A fingerprint is the HMAC under the vault's own key.
    intern = team.intern()
    theirs = team.put(f"{vault_path(intern)}/a", "one")["fingerprint"]
    assert len({first["fingerprint"], other["fingerprint"], theirs}) == 3
    key = open_data_key(vault_of(intern))
    assert theirs == "sha256:" + hmac.new(key, b"one", hashlib.sha256).hexdigest()


def test_lists_are_sorted_by_name_and_paged(team: Team) -> None:
    names = ["a", "a1", "a_b", "ab", "b"]
    for name in reversed(names):
        team.put(f"{SHARED}/{name}")
    for query, wanted, has_more in (
        *(("", sorted(names), False), ("?offset=null&limit=100", sorted(names), False)),
        *(("?limit=2", ["a", "a1"], True), ("?limit=2&offset=3", ["ab", "b"], False)),
        ("?offset=10000", [], False),
    ):
        page = team.ok("GET", f"{SHARED}{query}")
        assert ([each["name"] for each in page["data"]], page["has_more"]) == (wanted, has_more)
    for path in (
        SHARED,
        vault_path(team.intern()),
        vault_path(team.intern("two"), "/effective-secrets"),
    ):
        for query in ("limit=0", "limit=101", "limit=x", "offset=-1", "offset=10001"):
            name = query.partition("=")[0]
            assert team.expect_refusal(400, "GET", f"{path}?{query}").startswith(f"{name}: ")


def test_the_longest_name_value_and_hosts_are_taken_and_other_names_are_refused(team: Team) -> None:
    own = vault_path(team.intern())
    names = ("GitHub", "a__b", "a_", "_a", "1a", "a-b", "a" * 256, "a%20b", "%C3%A4", "a%00")
    hosts = [f"h{number}.example" for number in range(100)]
    assert team.put(f"{SHARED}/{'a' * 255}", "ä" * 65536, hosts)["hosts"] == hosts
    for name in (*names, "a.b", "a%0A"):
        for method, path in (("PUT", SHARED), ("DELETE", SHARED), ("PUT", own)):
            told = team.expect_refusal(400, method, f"{path}/{name}", GOOD.get(method))
            assert told.startswith("name: ")


V, H = {"value": "v"}, {"hosts": HOSTS}
NO_HOST = "hosts.1: Invalid input: expected an exact DNS host name"
NO_JSON = "Invalid JSON in request body"
WRONG: list[tuple[object, str]] = [
    (H, "value: Invalid input: expected string, received undefined"),
    (V, "hosts: Invalid input: expected array, received undefined"),
    (H | {"value": 1}, "value: Invalid input: expected string, received number"),
    (H | {"value": ""}, "value: Too small: expected string to have >=1 characters"),
    (H | {"value": "a" * 65537}, "value: Too big: expected string to have <=65536 characters"),
    (V | {"hosts": []}, "hosts: Too small: expected array to have >=1 items"),
    (V | {"hosts": ["a.b"] * 101}, "hosts: Too big: expected array to have <=100 items"),
    (V | {"hosts": [None]}, "hosts.0: Invalid input: expected string, received null"),
    (V | {"hosts": "a.b"}, "hosts: Invalid input: expected array, received string"),
    (V | H | {"foo": 1}, 'Unrecognized key: "foo"'),
    ([], "Invalid input: expected object"),
    *((text, NO_JSON) for text in ("", "{bad", '{"value": "\\u0000", "hosts": ["a.b"]}')),
    *((V | {"hosts": ["a.b", host]}, NO_HOST) for host in ("https://x.y", "*.x.y", "", "x.y:80")),
]


def test_bodies_are_strict(team: Team) -> None:
    own = vault_path(team.intern())
    for body, told in WRONG:
        for path in (TOKEN, f"{own}/a"):
            assert team.expect_refusal(400, "PUT", path, body) == told
    assert team.names() == []


def test_a_body_of_one_byte_too_many_is_413(team: Team) -> None:
    head, tail = '{"value": "', '", "hosts": ["a.b"]}'
    body = head + "\\u00e4" * 65536 + tail
    assert len(body) < 425_000
    team.ok("PUT", TOKEN, body + " " * (425_000 - len(body)))
    too_large = body + " " * (425_001 - len(body))
    assert team.expect_refusal(413, "PUT", TOKEN, too_large) == "Request payload too large"
    own = vault_path(team.intern())
    team.expect_refusal(413, "PUT", f"{own}/a", too_large)
    team.expect_refusal(413, "POST", f"{own}/copy", too_large)


def test_deleting_answers_204_without_a_body_once(team: Team) -> None:
    # A secret may be called copy.
    own = vault_path(team.intern(), "/secrets/copy")
    for path in (TOKEN, own):
        team.put(path)
        assert team.ask("DELETE", path) == (204, None)
        assert team.expect_refusal(404, "DELETE", path) == "Resource not found"


def _every_path(intern: Intern) -> list[tuple[str, str]]:
    return [
        *((method, SHARED if method == "GET" else TOKEN) for method in ("GET", "PUT", "DELETE")),
        *(
            ("GET", vault_path(intern)),
            ("PUT", f"{vault_path(intern)}/a"),
            ("DELETE", f"{vault_path(intern)}/a"),
        ),
        ("POST", vault_path(intern, "/secrets/copy")),
        *(("GET", vault_path(intern, end)) for end in ("/effective-secrets", "/connections")),
    ]


def test_host_credentials_and_programme_come_first(team: Team, settings: Any) -> None:
    intern = team.intern()
    settings.REGIONAL_HOSTS = {"eu.example.com": "europe"}
    for method, path in _every_path(intern):
        got, said = team.ask(method, path, key="wrong", HTTP_HOST="eu.example.com")
        assert (got, said["error"]["message"]) == (403, "Forbidden")
    for key in ("management", "sk-rt-v1-nope", ""):
        assert team.expect_refusal(401, "GET", SHARED, key=key) == "Invalid or missing API key"
    Account.objects.update(interns_enabled=False)
    for method, path in _every_path(intern):
        assert team.expect_refusal(404, method, path, {"odd": 1}) == "Resource not found"


def test_without_writes_there_are_reads(team: Team) -> None:
    intern = team.intern()
    team.put(TOKEN)
    Account.objects.update(vault_writes_enabled=False)
    for method, path in _every_path(intern):
        if method == "GET":
            team.ok("GET", path)
        else:
            told = team.expect_refusal(503, method, path, "not even looked at")
            assert told == "Vault writes are not enabled"
    assert team.names() == ["github_token"]


def test_interns_of_others_are_not_found(team: Team) -> None:
    stranger = open_team("theirs").intern()
    team.another_workspace()
    mine = team.intern()
    team.put(TOKEN)
    # Workspaces share nothing.
    assert team.names(key="elsewhere") == []
    assert team.expect_refusal(404, "DELETE", TOKEN, key="elsewhere") == "Resource not found"
    for intern, key in ((stranger.pk, "owner"), (mine.pk, "elsewhere"), ("none", "owner")):
        for method, path in _every_path(mine):
            if "/interns/" in path:
                path = path.replace(str(mine.pk), str(intern))
                told = team.expect_refusal(404, method, path, GOOD.get(method), key=key)
                assert told == "Resource not found"
    # The body is looked at before the intern.
    nowhere = f"/vault/interns/{uuid.uuid4()}/secrets/a"
    assert team.expect_refusal(400, "PUT", nowhere, {}).startswith("value")


def test_an_intern_s_own_key_sees_its_own_secrets_alone(team: Team) -> None:
    intern, own = team.create_running()
    other = team.intern("second")
    team.put(TOKEN)
    team.put(f"{vault_path(intern)}/a")
    assert team.names(vault_path(intern), key=own) == ["a"]
    assert team.names(vault_path(intern, "/effective-secrets"), key=own) == ["a", "github_token"]
    for method, path in _every_path(other):
        team.expect_refusal(404, method, path, GOOD.get(method), key=own)
    assert (
        team.expect_refusal(403, "PUT", f"{vault_path(intern)}/a", GOOD["PUT"], key=own)
        == "Forbidden"
    )


def test_every_change_leaves_a_record_without_the_value(team: Team) -> None:
    intern = team.intern()
    team.put(TOKEN, "canary-value")
    team.put(TOKEN, "canary-value")
    team.put(TOKEN, "canary-other")
    team.ok("POST", vault_path(intern, "/secrets/copy"), {"names": ["github_token"]})
    team.ask("DELETE", TOKEN)
    records = list(AuditRecord.objects.filter(object_type__startswith="vault").order_by("pk"))
    assert [each.action for each in records] == ["created", "updated", "copied", "deleted"]
    assert {each.account_id for each in records} == {team.account.pk}
    assert (records[0].after or {})["hosts"] == HOSTS
    assert set(records[1].after or ()) == {"fingerprint"}
    kept = repr([(each.before, each.after, each.object_id) for each in records])
    assert "canary" not in kept
    assert str(Vault.objects.get(intern__isnull=True).pk) in kept


def test_the_rate_is_the_account_s(team: Team, settings: Any) -> None:
    settings.RATE_VAULT = 2
    team.ok("GET", SHARED)
    team.ok("GET", vault_path(team.intern()), key="boss")
    assert team.expect_refusal(429, "GET", SHARED, key="other") == "Rate limit exceeded"
