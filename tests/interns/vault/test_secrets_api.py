"""/vault over HTTP: what is stored, listed, copied and deleted, and what wrong requests get."""

import hashlib
import hmac
import re
import uuid

import pytest

from accounts.models import Account, AuditRecord
from interns.models import Intern, Vault
from interns.vault.sealing import data_key
from tests.interns.vault.team import HOSTS, SHARED, Team, of, open_team, vault_of

pytestmark = pytest.mark.django_db
TOKEN = f"{SHARED}/github_token"


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
    first = team.put(TOKEN, "one")
    again = team.put(TOKEN, "one")
    other = team.put(TOKEN, "two", ["x.y"])
    assert team.queries <= 6
    assert again == first
    assert other["created_at"] == first["created_at"]
    assert other["fingerprint"] != first["fingerprint"]
    assert other["hosts"] == ["x.y"]
    assert team.names() == ["github_token"]


def test_a_fingerprint_is_the_hmac_under_the_vault_s_own_key(team: Team) -> None:
    intern = team.intern()
    told = {team.put(f"{SHARED}/{name}", "same")["fingerprint"] for name in ("a", "b")}
    assert len(told) == 1
    theirs = team.put(f"{of(intern)}/a", "same")["fingerprint"]
    assert theirs not in told
    key = data_key(vault_of(intern))
    assert theirs == "sha256:" + hmac.new(key, b"same", hashlib.sha256).hexdigest()


def test_lists_are_sorted_by_name_and_paged(team: Team) -> None:
    names = ["a", "a1", "a_b", "ab", "b"]
    for name in reversed(names):
        team.put(f"{SHARED}/{name}")
    assert team.names() == sorted(names)
    first = team.ok("GET", f"{SHARED}?limit=2")
    assert ([each["name"] for each in first["data"]], first["has_more"]) == (["a", "a1"], True)
    last = team.ok("GET", f"{SHARED}?limit=2&offset=3")
    assert ([each["name"] for each in last["data"]], last["has_more"]) == (["ab", "b"], False)
    assert team.ok("GET", f"{SHARED}?offset=10000") == {"data": [], "has_more": False}
    assert team.ok("GET", f"{SHARED}?offset=null&limit=100")["has_more"] is False


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "offset=-1", "offset=10001"])
def test_a_page_out_of_bounds_is_refused(team: Team, query: str) -> None:
    for path in (SHARED, of(team.intern()), of(team.intern("two"), "/effective-secrets")):
        name = query.partition("=")[0]
        assert team.refused(400, "GET", f"{path}?{query}").startswith(f"{name}: ")


@pytest.mark.parametrize(
    "name",
    [
        "GitHub",
        "a__b",
        "a_",
        "_a",
        "1a",
        "a-b",
        "a.b",
        "a" * 256,
        "a%20b",
        "%C3%A4",
        "a%00",
        "a%0A",
    ],
)
def test_other_names_are_refused(team: Team, name: str) -> None:
    body = {"value": "v", "hosts": HOSTS}
    assert team.refused(400, "PUT", f"{SHARED}/{name}", body).startswith("name: ")
    assert team.refused(400, "DELETE", f"{SHARED}/{name}").startswith("name: ")
    assert team.refused(400, "PUT", f"{of(team.intern())}/{name}", body).startswith("name: ")


def test_the_longest_name_and_value_and_all_hosts_are_taken(team: Team) -> None:
    hosts = [f"h{number}.example" for number in range(100)]
    assert team.put(f"{SHARED}/{'a' * 255}", "ä" * 65536, hosts)["hosts"] == hosts


WRONG: list[tuple[object, str]] = [
    ({"hosts": HOSTS}, "value: Invalid input: expected string, received undefined"),
    ({"value": "v"}, "hosts: Invalid input: expected array, received undefined"),
    ({"value": 1, "hosts": HOSTS}, "value: Invalid input: expected string, received number"),
    ({"value": "", "hosts": HOSTS}, "value: Too small: expected string to have >=1 characters"),
    (
        {"value": "a" * 65537, "hosts": HOSTS},
        "value: Too big: expected string to have <=65536 characters",
    ),
    ({"value": "v", "hosts": []}, "hosts: Too small: expected array to have >=1 items"),
    ({"value": "v", "hosts": ["a.b"] * 101}, "hosts: Too big: expected array to have <=100 items"),
    ({"value": "v", "hosts": HOSTS, "foo": 1}, 'Unrecognized key: "foo"'),
    ({"value": "v", "hosts": [None]}, "hosts.0: Invalid input: expected string, received null"),
    ({"value": "v", "hosts": "a.b"}, "hosts: Invalid input: expected array, received string"),
    ([], "Invalid input: expected object"),
    ("{bad", "Invalid JSON in request body"),
    ('{"value": "\\u0000", "hosts": ["a.b"]}', "Invalid JSON in request body"),
    ("", "Invalid JSON in request body"),
]


@pytest.mark.parametrize(("body", "told"), WRONG)
def test_bodies_are_strict(team: Team, body: object, told: str) -> None:
    assert team.refused(400, "PUT", TOKEN, body) == told
    assert team.refused(400, "PUT", f"{of(team.intern())}/a", body) == told
    assert team.names() == []


@pytest.mark.parametrize(
    "host",
    ["https://x.y", "*.x.y", "", ".", "x..y", "x.y:80", "x.y/z", "-x.y", "x-.y", "x_y", "x y",
     "x.y..", "ä.y", f"{'a' * 64}.y", ".".join(["a" * 63] * 4)],
)  # fmt: skip
def test_hosts_are_exact_names(team: Team, host: str) -> None:
    told = team.refused(400, "PUT", TOKEN, {"value": "v", "hosts": ["a.b", host]})
    assert told == "hosts.1: Invalid input: expected an exact DNS host name"


def test_a_body_of_one_byte_too_many_is_413(team: Team) -> None:
    head, tail = '{"value": "', '", "hosts": ["a.b"]}'
    body = head + "\\u00e4" * 65536 + tail
    assert len(body) < 425_000
    team.ok("PUT", TOKEN, body + " " * (425_000 - len(body)))
    too_large = body + " " * (425_001 - len(body))
    assert team.refused(413, "PUT", TOKEN, too_large) == "Request payload too large"
    intern = team.intern()
    team.refused(413, "PUT", f"{of(intern)}/a", too_large)
    team.refused(413, "POST", of(intern, "/secrets/copy"), too_large)


def test_deleting_answers_204_without_a_body_once(team: Team) -> None:
    team.put(TOKEN)
    assert team.ask("DELETE", TOKEN) == (204, None)
    assert team.refused(404, "DELETE", TOKEN) == "Resource not found"
    intern = team.intern()
    team.put(f"{of(intern)}/a")
    assert team.ask("DELETE", f"{of(intern)}/a") == (204, None)
    assert team.refused(404, "DELETE", f"{of(intern)}/a") == "Resource not found"


def test_a_secret_may_be_called_copy(team: Team) -> None:
    intern = team.intern()
    team.put(of(intern, "/secrets/copy"))
    assert team.names(of(intern)) == ["copy"]
    assert team.ask("DELETE", of(intern, "/secrets/copy"))[0] == 204


# --- Who may -------------------------------------------------------------------------------------


def test_credentials_that_open_no_vault(team: Team) -> None:
    for key in ("management", "sk-rt-v1-nope", ""):
        assert team.refused(401, "GET", SHARED, key=key) == "Invalid or missing API key"


def test_outside_the_programme_every_path_is_404(team: Team) -> None:
    intern = team.intern()
    Account.objects.update(interns_enabled=False)
    for method, path in _every_path(intern):
        assert team.refused(404, method, path, {"odd": 1}) == "Resource not found"


def test_a_regional_host_is_403_before_anything(team: Team, settings: object) -> None:
    settings.REGIONAL_HOSTS = {"eu.example.com": "europe"}  # type: ignore[attr-defined]  # The fixture takes any.
    for method, path in _every_path(team.intern()):
        got, said = team.ask(method, path, key="wrong", HTTP_HOST="eu.example.com")
        assert (got, said["error"]["message"]) == (403, "Forbidden")


def test_without_writes_there_are_reads(team: Team) -> None:
    intern = team.intern()
    team.put(TOKEN)
    Account.objects.update(vault_writes_enabled=False)
    for method, path in _every_path(intern):
        if method == "GET":
            team.ok("GET", path)
        else:
            told = team.refused(503, method, path, "not even looked at")
            assert told == "Vault writes are not enabled"
    assert team.names() == ["github_token"]


def test_interns_of_others_are_not_found(team: Team) -> None:
    stranger = open_team("theirs").intern()
    team.another_workspace()
    mine = team.intern()
    good = {"PUT": {"value": "v", "hosts": HOSTS}, "POST": {"names": ["a"]}}
    for intern, key in ((stranger.pk, "owner"), (mine.pk, "elsewhere"), ("none", "owner")):
        for method, path in _every_path(mine):
            if "/interns/" in path:
                path = path.replace(str(mine.pk), str(intern))
                told = team.refused(404, method, path, good.get(method), key=key)
                assert told == "Resource not found"


def test_workspaces_share_nothing(team: Team) -> None:
    team.put(TOKEN)
    team.another_workspace()
    assert team.names(key="elsewhere") == []
    assert team.refused(404, "DELETE", TOKEN, key="elsewhere") == "Resource not found"


def test_the_body_is_looked_at_before_the_intern(team: Team) -> None:
    assert team.refused(400, "PUT", f"/vault/interns/{uuid.uuid4()}/secrets/a", {}).startswith(
        "value"
    )
    assert (
        team.refused(404, "GET", f"/vault/interns/{uuid.uuid4()}/secrets") == "Resource not found"
    )


def test_who_may_not_change_an_intern_may_not_change_its_vault(team: Team) -> None:
    intern = team.intern()
    team.put(f"{of(intern)}/a", key="boss")
    for key in ("other", "nobody"):
        assert team.names(of(intern), key=key) == ["a"]
        for method, path, body in (
            ("PUT", f"{of(intern)}/a", {"value": "v", "hosts": HOSTS}),
            ("DELETE", f"{of(intern)}/a", None),
            ("POST", of(intern, "/secrets/copy"), {"names": ["a"]}),
        ):
            assert team.refused(403, method, path, body, key=key) == "Forbidden"
    # The workspace's own vault is everybody's who has a key in it.
    team.put(TOKEN, key="other")


def test_an_intern_s_own_key_sees_its_own_secrets_alone(team: Team) -> None:
    intern, own = team.running()
    other = team.intern("second")
    team.put(TOKEN)
    team.put(f"{of(intern)}/a")
    assert team.names(of(intern), key=own) == ["a"]
    effective = team.ok("GET", of(intern, "/effective-secrets"), key=own)["data"]
    assert [each["name"] for each in effective] == ["a", "github_token"]
    for method, path in _every_path(other):
        team.refused(404, method, path, _good(method), key=own)
    assert team.refused(403, "PUT", f"{of(intern)}/a", _good("PUT"), key=own) == "Forbidden"


def _good(method: str) -> object:
    return {"PUT": {"value": "v", "hosts": HOSTS}, "POST": {"names": ["a"]}}.get(method)


def _every_path(intern: Intern) -> list[tuple[str, str]]:
    return [
        ("GET", SHARED),
        ("PUT", TOKEN),
        ("DELETE", TOKEN),
        ("GET", of(intern)),
        ("PUT", f"{of(intern)}/a"),
        ("DELETE", f"{of(intern)}/a"),
        ("POST", of(intern, "/secrets/copy")),
        ("GET", of(intern, "/effective-secrets")),
        ("GET", of(intern, "/connections")),
    ]


# --- Records and rates ---------------------------------------------------------------------------


def test_every_change_leaves_a_record_without_the_value(team: Team) -> None:
    intern = team.intern()
    team.put(TOKEN, "canary-value")
    team.put(TOKEN, "canary-value")
    team.put(TOKEN, "canary-other")
    team.ok("POST", of(intern, "/secrets/copy"), {"names": ["github_token"]})
    team.ask("DELETE", TOKEN)
    records = list(AuditRecord.objects.filter(object_type__startswith="vault").order_by("pk"))
    actions = [each.action for each in records]
    assert actions == ["created", "updated", "copied", "deleted"]
    assert {each.account_id for each in records} == {team.account.pk}
    assert (records[0].after or {})["hosts"] == HOSTS
    assert set(records[1].after or ()) == {"fingerprint"}
    kept = repr([(each.before, each.after, each.object_id) for each in records])
    assert "canary" not in kept
    assert str(Vault.objects.get(intern__isnull=True).pk) in kept


def test_the_rate_is_the_account_s(team: Team, settings: object) -> None:
    settings.RATE_VAULT = 2  # type: ignore[attr-defined]  # The fixture takes any.
    team.ok("GET", SHARED)
    team.ok("GET", of(team.intern()), key="boss")
    assert team.refused(429, "GET", SHARED, key="other") == "Rate limit exceeded"
