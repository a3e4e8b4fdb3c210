"""/observability/destinations: made, read, listed and changed through the API."""

import uuid
from typing import Any

import pytest

from accounts.models import ApiKey, AuditRecord, Workspace
from accounts.services.keys import create_key
from routing.destinations.config import seal_secrets
from routing.destinations.models import Destination
from routing.destinations.services import load_config
from tests.accounts.dump import database_text
from tests.routing.destinations.examples import LANGFUSE, PATH, SECRET, WEBHOOK
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]

PARTS = ("cost", "cost_allocation", "identity", "request_context")


@pytest.fixture
def mine() -> Manager:
    return manager("destinations")


def make_destination(mine: Manager, body: dict[str, Any] | None = None, **changes: Any) -> Any:
    return mine.ok("POST", PATH, (body or LANGFUSE) | changes, status=201)["data"]


def stored_config(data: Any) -> Any:
    return load_config(Destination.objects.get(pk=data["id"]))


def test_a_new_destination_is_shown_with_its_secrets_masked(mine: Manager) -> None:
    data = make_destination(mine)

    assert data == {
        "id": str(uuid.UUID(data["id"], version=4)),
        "type": "langfuse",
        "name": "Traces",
        "workspace_id": str(mine.account.workspaces.get().pk),
        "config": LANGFUSE["config"]
        | {"secretKey": "****6789", "baseUrl": "https://cloud.langfuse.com"},
        "enabled": True,
        "privacy_mode": False,
        "sampling_rate": 1.0,
        **dict.fromkeys(("api_key_hashes", "filter_rules")),
        **dict.fromkeys((f"broadcast_generation_{part}" for part in PARTS), False),
        "regions": ["global", "europe", "us"],
        "created_at": data["created_at"],
        "updated_at": data["updated_at"],
    }
    assert mine.ok("GET", f"{PATH}/{data['id']}")["data"] == data
    assert mine.ok("GET", PATH) == {"data": [data], "total_count": 1}
    assert stored_config(data)["secretKey"] == SECRET
    assert SECRET not in database_text()


def test_masked_and_absent_values_keep_what_is_stored(mine: Manager) -> None:
    headers = {"Authorization": "Bearer a-long-token-for-hooks", "X-Team": "short"}
    data = make_destination(mine, WEBHOOK, config=WEBHOOK["config"] | {"headers": headers})
    shown = data["config"]
    assert shown["headers"] == {"Authorization": "****ooks", "X-Team": "****"}
    path = f"{PATH}/{data['id']}"

    mine.ok("PATCH", path, {"config": shown | {"method": "PUT"}})
    assert stored_config(data) == WEBHOOK["config"] | {"method": "PUT", "headers": headers}
    mine.ok("PATCH", path, {"config": {"headers": {"X-Team": "****", "X-New": "new"}}})
    assert stored_config(data)["headers"] == {"X-Team": "short", "X-New": "new"}
    mine.ok("PATCH", path, {"config": {"headers": None}, "name": "Other"})
    changed = mine.ok("GET", path)["data"]
    assert (changed["config"], changed["name"]) == (WEBHOOK["config"] | {"method": "PUT"}, "Other")
    text = "config.headers.X: Invalid input: a masked value, and none is stored"
    assert mine.expect_refusal(400, "PATCH", path, {"config": {"headers": {"X": "****"}}}) == text
    assert not AuditRecord.objects.filter(after__icontains="hooks.example").exists()


def test_secrets_go_to_no_other_host_unless_they_are_given_again(mine: Manager) -> None:
    data = make_destination(mine)
    path = f"{PATH}/{data['id']}"
    text = "config.secretKey: Invalid input: give it again, because the URL leads to another host"
    for host in ("https://evil.example", "https://cloud.langfuse.com:8443"):
        for config in ({"baseUrl": host}, data["config"] | {"baseUrl": host}):
            assert mine.expect_refusal(400, "PATCH", path, {"config": config}) == text
    mine.ok("PATCH", path, {"config": {"baseUrl": "https://cloud.langfuse.com/there"}})
    given = {"baseUrl": "https://ours.example", "secretKey": "sk-other"}
    mine.ok("PATCH", path, {"config": given})
    assert stored_config(data) == {"publicKey": "pk-lf-1"} | given

    headers = {"X-Token": "token"}
    hook = make_destination(mine, WEBHOOK, config=WEBHOOK["config"] | {"headers": headers})
    moved = {"url": "https://evil.example"}
    message = mine.expect_refusal(400, "PATCH", f"{PATH}/{hook['id']}", {"config": moved})
    assert message.startswith("config.headers.X-Token: Invalid input: give it again")
    mine.ok("PATCH", f"{PATH}/{hook['id']}", {"config": moved | {"headers": None}})


def test_secrets_under_another_master_key_are_given_again(mine: Manager) -> None:
    data, other = make_destination(mine), make_destination(mine, WEBHOOK)
    path = f"{PATH}/{data['id']}"
    sealed_elsewhere = seal_secrets(uuid.uuid4(), {"secretKey": SECRET})
    Destination.objects.filter(pk=data["id"]).update(sealed=sealed_elsewhere)

    listed = {each["id"]: each["config"] for each in mine.ok("GET", PATH)["data"]}
    assert listed[data["id"]] == {name: data["config"][name] for name in ("publicKey", "baseUrl")}
    assert listed[other["id"]] == other["config"]
    assert mine.ok("PATCH", path, {"enabled": False})["data"]["enabled"] is False
    without = mine.expect_refusal(
        400, "PATCH", path, {"config": {"baseUrl": "https://ours.example"}}
    )
    assert without.startswith("config.secretKey: ")

    mine.ok("PATCH", path, {"config": {"secretKey": "sk-lf-another-one"}})
    assert stored_config(data)["secretKey"] == "sk-lf-another-one"


def test_each_type_takes_what_it_needs(mine: Manager) -> None:
    configs: dict[str, dict[str, Any]] = {
        "otel-collector": {"endpoint": "https://otel.example:4318"},
        "s3": {"bucketName": "traces", "accessKeyId": "AK", "secretAccessKey": "a" * 40},
        "datadog": {"apiKey": "d" * 32, "mlApp": "bot"},
        "langsmith": {"apiKey": "l" * 32, "project": "p"},
        "grafana": {"apiKey": "g" * 32, "instanceId": "1", "baseUrl": "https://otlp.example"},
        "posthog": {"apiKey": "p" * 32},
        "sentry": {"dsn": "https://key@o1.example/2", "endpoint": "https://o1.example/otlp"},
    }
    for type_name, config in configs.items():
        data = make_destination(mine, {"type": type_name, "name": type_name, "config": config})
        assert config.keys() <= data["config"].keys()
        for secret in config.keys() & {"apiKey", "secretAccessKey", "dsn"}:
            assert data["config"][secret].startswith("****"), type_name
    assert (
        make_destination(mine, {"type": "s3", "name": "s", "config": configs["s3"]})["config"]
        | {
            "prefix": "router-traces",
            "pathTemplate": "{prefix}/{date}",
        }
        == mine.ok("GET", PATH)["data"][0]["config"]
    )


NO_DESTINATIONS: list[tuple[dict[str, Any], str]] = [
    ({"type": "opik"}, "Unsupported destination type"),
    ({"type": ...}, "type: Invalid input: expected string, received undefined"),
    ({"config": {"secretKey": "s"}}, "config.publicKey: Invalid input: expected string"),
    (
        {"config": LANGFUSE["config"] | {"secretKey": "****6789"}},
        "config.secretKey: Invalid input: a masked value, and none is stored",
    ),
    (
        {"config": LANGFUSE["config"] | {"baseUrl": "ftp://a.example"}},
        "config.baseUrl: Invalid input: The URL begins with http:// or https://",
    ),
    (
        {"config": LANGFUSE["config"] | {"baseUrl": "http://169.254.169.254/x"}},
        "config.baseUrl: Invalid input: a private address",
    ),
    (
        {"config": LANGFUSE["config"] | {"baseUrl": "http://traces.example"}},
        "config.baseUrl: Invalid input: expected https://, unless DESTINATION_PRIVATE_HOSTS",
    ),
    (
        {"config": LANGFUSE["config"] | {"headers": {"Host": "other"}}},
        "config.headers: Invalid input: a header that cannot be set",
    ),
    (
        {"config": LANGFUSE["config"] | {"headers": {"A": "b\r\nC: d"}}},
        "config.headers.A: Invalid input: expected visible ASCII characters",
    ),
    ({"api_key_hashes": ["0" * 64]}, "api_key_hashes.0: Invalid input: no key of this account"),
]


def test_what_is_no_destination_is_refused(mine: Manager) -> None:
    for changes, text in NO_DESTINATIONS:
        body = {name: value for name, value in (LANGFUSE | changes).items() if value is not ...}
        assert mine.expect_refusal(400, "POST", PATH, body).startswith(text)


def test_keys_are_followed_when_their_string_changes(mine: Manager) -> None:
    workspace = mine.account.workspaces.get()
    key, _ = create_key(account=mine.account, name="k", workspace=workspace)
    data = make_destination(mine, api_key_hashes=[key.hash])
    assert data["api_key_hashes"] == [key.hash]
    ApiKey.objects.filter(pk=key.pk).update(hash="f" * 64)

    assert mine.ok("GET", f"{PATH}/{data['id']}")["data"]["api_key_hashes"] == ["f" * 64]


def test_five_of_a_type_fit_into_a_workspace(mine: Manager) -> None:
    team = mine.workspace("team")
    for number in range(5):
        make_destination(mine, name=f"{number}")

    message = "A maximum of 5 destinations per type is allowed"
    assert mine.expect_refusal(409, "POST", PATH, LANGFUSE) == message
    make_destination(mine, WEBHOOK)
    own = make_destination(mine, workspace_id=str(team.pk))
    assert mine.ok("GET", f"{PATH}?workspace_id={team.pk}")["data"] == [own]
    page = mine.ok("GET", f"{PATH}?offset=1&limit=2")
    assert ([each["name"] for each in page["data"]], page["total_count"]) == (["4", "3"], 6)


def test_one_that_is_switched_on_again_counts_its_drops_anew(mine: Manager) -> None:
    data = make_destination(mine)
    Destination.objects.update(enabled=False, drops_in_row=100)

    assert mine.ok("PATCH", f"{PATH}/{data['id']}", {"enabled": True})["data"]["enabled"] is True
    assert Destination.objects.get().drops_in_row == 0
    actions = AuditRecord.objects.filter(object_type="destination").order_by("pk")
    assert [record.action for record in actions] == ["created", "updated"]


def test_deleted_destinations_are_gone_also_with_their_workspace(mine: Manager) -> None:
    data = make_destination(mine)
    assert mine.ok("DELETE", f"{PATH}/{data['id']}") == {"deleted": True}
    assert mine.expect_refusal(404, "GET", f"{PATH}/{data['id']}") == "Resource not found"
    team = mine.workspace("team")
    make_destination(mine, workspace_id=str(team.pk))

    mine.ok("DELETE", "/workspaces/team")

    assert not Destination.objects.exists()
    assert Workspace.everything.filter(pk=team.pk).exists()
