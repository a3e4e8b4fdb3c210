"""The `openrouter` package, unmodified: every method that has a counterpart here is called, reads
its answer, and finds it true."""

import hashlib
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx
import openrouter
import pytest
from openrouter import OpenRouter, errors

from tests.conformance.desk import Desk
from tests.support.server import as_json

# The package warns of fields that it reads by itself, and of providers that its vendor has not.
pytestmark = [
    pytest.mark.filterwarnings("ignore:warning. .. DEPRECATED:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer:UserWarning"),
]
HELLO: Any = [{"role": "user", "content": "Hello there"}]
AUTHOR, SLUG = "acme", "solo"
# The tests of decisions call what answers where a model decides, and those of workloads what needs
# a trusted issuer.
ELSEWHERE: Final = {
    ("POST", "/api/alpha/decisions"),
    ("POST", "/systemone"),
    ("GET", "/oauth/jwks"),
    ("POST", "/oauth/token"),
}
_METHOD: Final = re.compile(r'method="([A-Z]+)",\s+path="([^"]+)"')
_NAME: Final = re.compile(r"\{[^}]*\}")
_numbers = count(1)


class Clients:
    """The package with each key of an account. `made` are the methods and paths it asked for."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.made = desk, set[tuple[str, str]]()
        self.http = httpx.Client(event_hooks={"request": [self._note]})
        self.mine = self.of_key(desk.account.api_key)
        self.manager = self.of_key(desk.account.management_key)

    # Of `Any` type: the package makes its arguments' and answers' types from long unions.
    def of_key(self, key: str) -> Any:
        url = self.desk.server.base_url
        return OpenRouter(api_key=key, server_url=url, client=self.http, retry_config=None)

    def _note(self, request: httpx.Request) -> None:
        self.made.add((request.method, request.url.path.removeprefix("/api/v1")))


@pytest.fixture
def clients(own_desk: Desk) -> Iterator[Clients]:
    made = Clients(own_desk)
    with made.http:
        yield made


def call_catalogue(of: Clients) -> None:
    models = of.mine.models
    assert f"{AUTHOR}/{SLUG}" in {each.id for each in models.list().result.data}
    assert models.list_for_user(security={"bearer": of.desk.account.api_key}).result.data
    assert models.count().data.count > 0
    assert models.get(author=AUTHOR, slug=SLUG).data.id == f"{AUTHOR}/{SLUG}"
    assert of.mine.providers.list().data
    assert of.mine.endpoints.list_zdr_endpoints().data
    (end,) = of.mine.endpoints.list(author=AUTHOR, slug=SLUG).data.endpoints
    takes = dict.fromkeys(("auto", "none", "required", "function"), True)
    assert end.supports_tool_choice.model_dump() == takes
    assert (end.native_tools, end.service_tier, end.supports_diarization) == ({}, None, False)


def call_history(of: Clients) -> None:
    of.manager.workspaces.update(
        id=of.desk.account.workspace_id,
        is_observability_io_logging_enabled=True,
        io_logging_sampling_rate=1,
    )
    answer: Any = of.mine.chat.send(model=of.desk.model, messages=HELLO)
    of.mine.responses.send(model=of.desk.model, input="Hello there")
    generations = of.manager.generations

    assert of.mine.generations.get_generation(id=answer.id).data.id == answer.id
    of.desk.server.wait_until(lambda: _has_content(of, answer.id), within_s=10)
    assert "Hello there" in str(generations.list_generation_content(id=answer.id))
    assert generations.submit_feedback(generation_id=answer.id, category="other")
    assert of.manager.credits.get_credits().data.total_usage > 0
    assert of.manager.analytics.get_user_activity() is not None
    assert of.manager.analytics.get_analytics_meta().data.metrics
    assert of.manager.analytics.query_analytics(metrics=["request_count"]).data


def _has_content(of: Clients, generation: str) -> bool:
    try:
        return bool(of.manager.generations.list_generation_content(id=generation))
    except errors.NotFoundResponseError:
        return False


def call_keys(of: Clients) -> None:
    keys = of.manager.api_keys
    made = keys.create(name="k", limit=2, external={"user": "customer-7"})
    assert made.key.startswith("sk-")
    assert (made.data.external_user, made.data.last_used_at) == ("customer-7", None)
    assert keys.get(hash=made.data.hash).data.external_user == "customer-7"
    assert made.data.hash in {each.hash for each in _workspace_keys(of)}
    assert keys.update(hash=made.data.hash, name="renamed").data.name == "renamed"
    assert keys.delete(hash=made.data.hash).DELETED
    about = of.mine.api_keys.get_current_key_metadata().data
    assert about.allowed_data_regions == ["global", "europe", "us"]
    assert about.free_model_daily_requests.limit == -1
    assert of.manager.api_keys.get_current_key_metadata().data.is_management_key


def _workspace_keys(of: Clients) -> list[Any]:
    place = of.desk.account.workspace_id
    return [*of.manager.api_keys.list(workspace_id=place).data, *of.manager.api_keys.list().data]


def call_byok(of: Clients) -> None:
    byok = of.manager.byok
    made = byok.create(provider="gamma", key="sk-mine-0123456789abcdef", is_required=True).data
    assert (made.is_required, made.is_byok_only) == (True, False)
    assert made.declared_zdr is made.declared_region is None
    assert byok.get(id=made.id).data == made
    assert [each.id for each in byok.list().result.data] == [made.id]
    assert byok.update(id=made.id, is_byok_only=True).data.is_byok_only
    with pytest.raises(errors.OpenRouterError, match="declared_zdr"):
        byok.update(id=made.id, declared_zdr=True)
    assert byok.delete(id=made.id).DELETED


def call_workspaces(of: Clients) -> None:
    spaces, user = of.manager.workspaces, of.desk.account.user_id
    made = spaces.create(name="W", slug=f"w-{next(_numbers)}").data
    assert made.id in {each.id for each in spaces.list().result.data}
    assert spaces.get(id=made.id).data.name == "W"
    assert spaces.update(id=made.id, name="V").data.name == "V"
    vendors = {
        "disabled_server_tools": ["openrouter:bash"],
        "default_text_model": "openrouter/auto",
    }
    changed = spaces.update(id=made.id, **vendors).data
    assert (changed.disabled_server_tools, changed.default_text_model) == (
        ["router:bash"],
        "router/auto",
    )
    assert spaces.bulk_add_members(id=made.id, user_ids=[user]).added_count == 1
    assert [each.user_id for each in spaces.list_members(id=made.id).result.data] == [user]
    assert spaces.bulk_remove_members(id=made.id, user_ids=[user]).removed_count == 1
    place: Any = {"workspace_ref": made.id, "interval": "daily"}
    assert spaces.set_budget(**place, limit_usd=3).data.limit_usd == 3
    assert spaces.get_budget(**place).data.limit_usd == 3
    assert len(spaces.list_budgets(workspace_ref=made.id).data) == 1
    assert spaces.delete_budget(**place).DELETED
    assert spaces.delete(id=made.id).DELETED


def call_guardrails(of: Clients) -> None:
    rails, account = of.manager.guardrails, of.desk.account
    made = rails.create(name="g").data
    assert made.id in {each.id for each in rails.list().result.data}
    assert rails.update(id=made.id, name="h").data.name == "h"
    assert rails.get(id=made.id).data.name == "h"
    keys: Any = {"id": made.id, "key_hashes": [account.api_key_hash]}
    assert rails.bulk_assign_keys(**keys).assigned_count == 1
    assert rails.list_guardrail_key_assignments(id=made.id).result.total_count == 1
    assert rails.list_key_assignments().result.total_count == 1
    assert rails.bulk_unassign_keys(**keys).unassigned_count == 1
    members: Any = {"id": made.id, "member_user_ids": [account.user_id]}
    assert rails.bulk_assign_members(**members).assigned_count == 1
    assert rails.list_guardrail_member_assignments(id=made.id).result.total_count == 1
    assert rails.list_member_assignments().result.total_count == 1
    assert rails.bulk_unassign_members(**members).unassigned_count == 1
    assert rails.delete(id=made.id).DELETED


def call_presets(of: Clients) -> None:
    presets, said = of.mine.presets, {"slug": "p", "model": of.desk.model}
    presets.create_presets_chat_completions(**said, messages=HELLO)
    presets.create_presets_messages(**said, messages=HELLO, max_tokens=5)
    presets.create_presets_responses(**said, input="x")
    assert [each.slug for each in presets.list().result.data] == ["p"]
    assert presets.get(slug="p").data.slug == "p"
    assert len(presets.list_versions(slug="p").result.data) == 3
    assert presets.get_version(slug="p", version="1").data.version == 1


def call_vault(of: Clients) -> None:
    vault, told = of.mine.vault, {"hosts": ["a.example"], "value": "v"}
    vault.store_vault_secret(name="token", **told)
    assert [each.name for each in vault.list_vault_secrets().data] == ["token"]
    # The package makes no interns.
    server, key = of.desk.server, of.desk.account.api_key
    intern = as_json(server.post("/api/v1/interns", key=key, json={"name": "research"}))["id"]
    assert vault.copy_vault_secrets_to_intern(intern_id=intern, names=["token"]).data
    vault.store_intern_vault_secret(intern_id=intern, name="other", **told)
    assert len(vault.list_intern_vault_secrets(intern_id=intern).data) == 2
    assert len(vault.list_intern_effective_vault_secrets(intern_id=intern).data) == 2
    assert vault.list_intern_connections(intern_id=intern) is not None
    vault.delete_intern_vault_secret(intern_id=intern, name="other")
    vault.delete_vault_secret(name="token")


def call_oauth(of: Clients) -> None:
    verifier = "a-verifier-of-the-app-that-has-43-characters"
    digest = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asked: dict[str, Any] = {"callback_url": "https://app.example/back", "key_label": "App"}
    how: Any = {"code_challenge_method": "S256"}
    code = of.mine.o_auth.create_auth_code(**asked, **how, code_challenge=digest, limit=3).data
    made = of.mine.o_auth.exchange_auth_code_for_api_key(
        code=code.id, code_verifier=verifier, **how
    )
    assert made.user_id == of.desk.account.user_id
    mine = of.manager.api_keys.get(hash=hashlib.sha256(made.key.encode()).hexdigest()).data
    assert (mine.name, mine.limit) == ("App", 3)
    answer: Any = of.of_key(made.key).chat.send(model=of.desk.model, messages=HELLO)
    assert answer.id


def call_organization(of: Clients, folder: Path) -> None:
    account, scim = of.desk.account, of.manager.scim
    members = of.manager.organization.list_members().result
    assert account.user_id in {each.id for each in members.data}
    settings = of.manager.organization
    assert settings.update_settings(is_filtered_model_catalog_enabled=True).data.id
    assert settings.get_settings().data.is_filtered_model_catalog_enabled
    file = folder / "groups.json"
    file.write_text(json.dumps({"engineers": [account.user_id]}))
    command = ("fill_scim_groups", "--account", account.name, "--file", str(file))
    assert of.desk.server.manage(*command)["groups"] == 1
    (group,) = scim.list_groups().result.data
    team = of.manager.workspaces.create(name="Team", slug=f"team-{next(_numbers)}").data.id
    made = scim.create(scim_group_id=group.id, workspace_id=team, role="member").data
    assert scim.read(id=made.id).data == made
    assert [each.id for each in scim.list_mappings().result.data] == [made.id]
    (member,) = of.manager.workspaces.list_members(id=team).result.data
    assert member.user_id == account.user_id
    assert scim.update(id=made.id, role="admin").data.role == "admin"
    assert scim.delete(id=made.id, keep_members="false")
    assert of.manager.workspaces.list_members(id=team).result.data == []
    job = scim.create_sync_job().result.data
    assert scim.get_sync_job(id=job.id).data.id == job.id


def call_destinations(of: Clients) -> None:
    destinations = of.manager.observability
    config = {"publicKey": "pk-lf-1", "secretKey": "sk-lf-secret"}
    made = destinations.create(config=config, name="Langfuse", type_="langfuse").data
    assert destinations.get(id=made.id).data == made
    assert destinations.update(id=made.id, enabled=False).data.enabled is False
    listed = destinations.list()
    assert listed is not None
    assert [each.id for each in listed.result.data] == [made.id]
    assert destinations.delete(id=made.id)


# History first: a workspace's wish to keep contents reaches keys in use a moment later.
AREAS: Final = (
    *(call_history, call_catalogue, call_keys, call_byok, call_workspaces),
    *(call_guardrails, call_presets, call_vault, call_oauth, call_destinations),
)


def test_every_method_with_a_counterpart_reads_its_answer(clients: Clients, tmp_path: Path) -> None:
    for call in AREAS:
        call(clients)
    call_organization(clients, tmp_path)

    shared = _methods() & _ours(clients.desk)
    called = {(method, _template(path, shared)) for method, path in clients.made}
    assert len(shared) > 50
    assert sorted(shared - called - ELSEWHERE) == []


def _methods() -> set[tuple[str, str]]:
    """Methods and paths that the package knows, their parameters without names."""
    files = Path(openrouter.__file__).parent.glob("*.py")
    found = (match.groups() for file in files for match in _METHOD.finditer(file.read_text()))
    return {(method, _NAME.sub("{}", path)) for method, path in found}


def _ours(desk: Desk) -> set[tuple[str, str]]:
    paths = as_json(desk.server.get("/api/v1/openapi.json"))["paths"]
    return {
        (method.upper(), _NAME.sub("{}", path.removeprefix("/api/v1")))
        for path, methods in paths.items()
        for method in methods
    }


def _template(path: str, known: set[tuple[str, str]]) -> str:
    """The known path that this one is an instance of: the one with the most words of its own."""
    fits = [each for _, each in known if re.fullmatch(each.replace("{}", "[^/]+"), path)]
    return min(fits, key=lambda each: each.count("{}"), default=path)
