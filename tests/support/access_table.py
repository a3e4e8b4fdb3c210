"""Who gets what, route by route: the one table that access, ids of others and numbers of queries
are tried by. A route without a row fails the build.

To add a route, add a call of it, with its methods; calls alike in both are tried one after the
other. `{key}` and the like stand for an object of the first tenant, made for the request.
`tests.support.tenants.THINGS` says how; a new kind of object is one entry there.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from django.urls import resolve

from accounts.roles import Action


class Need(NamedTuple):
    """What a management key's scopes and its creator's role must allow, to change something and to
    see it. Whoever may change it sees it, too."""

    change: Action
    see: Action = Action.READ


# By how a path begins; of two beginnings the longer one counts. Paths that are open to all of
# their callers alike stand in the rows alone.
NEEDS: Final = {
    "/api/v1/keys": Need(Action.KEYS),
    "/api/v1/auth": Need(Action.KEYS),
    "/api/v1/workspaces": Need(Action.WORKSPACES),
    "/api/v1/workspaces/{workspace}/members": Need(Action.WORKSPACES, Action.MEMBERS),
    "/api/v1/organization/settings": Need(Action.WORKSPACES),
    "/api/v1/organization/members": Need(Action.WORKSPACES, Action.MEMBERS),
    "/api/v1/scim": Need(Action.WORKSPACES),
    "/api/v1/presets": Need(Action.WORKSPACES),
    "/api/v1/observability": Need(Action.WORKSPACES),
    "/api/v1/notifications": Need(Action.WORKSPACES),
    "/api/v1/guardrails": Need(Action.GUARDRAILS),
    "/api/v1/credits": Need(Action.BILLING),
    "/api/v1/byok": Need(Action.CATALOGUE),
    "/api/v1/interns": Need(Action.OTHERS_INTERNS),
    "/api/v1/vault": Need(Action.OTHERS_INTERNS),
    "/api/v1/generation": Need(Action.ACCOUNT),
    "/api/v1/generation/content": Need(Action.ACCOUNT, Action.CONTENTS),
    "/api/v1/activity": Need(Action.ACCOUNT),
    "/api/v1/analytics": Need(Action.ACCOUNT),
    "/api/v1/routing": Need(Action.ACCOUNT),
    "/api/v1/privacy": Need(Action.ACCOUNT),
    "/scim/v2": Need(Action.DIRECTORY, Action.MEMBERS),
}
# What any key may ask: about itself, and which models there are for it.
OF_ANY_KEY: Final = ("/api/v1/key", "/api/v1/models/user")
# Questions that take a body.
QUESTIONS: Final = ("/api/v1/analytics/query", "/api/v1/routing/what-if")


def find_need(path: str) -> Need:
    """What the path of a row needs."""
    begun = [each for each in NEEDS if f"{path}/".startswith((f"{each}/", f"{each}?"))]
    assert begun, f"NEEDS does not say which action {path} is"
    return NEEDS[max(begun, key=len)]


@dataclass(frozen=True)
class Row:
    """The status that a method gives nobody, an inference key and a management key.

    `member` and `admin` are for inference keys of people, where these get something else. They are
    of people whose role does not allow what the path needs, and of people whose role does.
    `foreign` is what another tenant's key of an allowed kind gets for a row that names an object;
    404 unless said. With `found_first` a key that may not is told so of its own tenant's object
    only, and that others' are not there. `scoped` lets in a management key that names the scope for
    interns, as `admin`.
    """

    path: str
    nobody: int
    inference: int
    management: int
    body: str = ""
    member: int | None = None
    admin: int | None = None
    foreign: int | None = None
    found_first: bool = False
    scoped: bool = False


ANYONE, ANY_KEY = (200, 200, 200), (401, 200, 200)
MANAGERS, MAKERS, SPENDERS = (401, 403, 200), (401, 403, 201), (401, 400, 401)
# Of interns: whoever has an inference key, and whose intern it is.
USERS, OWNERS = (401, 200, 401), (401, 403, 401)
SHORT = '{"model": "nope/none", "messages": []}'
# Route → method → rows. HEAD is as GET, other methods are 405 for everyone.
TABLE: dict[str, dict[str, tuple[Row, ...]]] = {}


def _add(
    methods: str, path: str, statuses: tuple[int, int, int], body: str = "", **more: Any
) -> None:
    """What is said of a call; `statuses` and `more` are a row's."""
    rows = TABLE.setdefault(resolve(urlsplit(path).path).route, {})
    for method in methods.split():
        rows[method] = (*rows.get(method, ()), Row(path, *statuses, body, **more))


_add("GET", "/healthz", ANYONE)
_add("GET", "/readyz", ANYONE)
_add("GET", "/api/v1/openapi.json", ANYONE)
_add("GET", "/docs", ANYONE)

# --- Inference
_add("POST", "/api/v1/chat/completions", SPENDERS, SHORT)
_add("POST", "/api/v1/messages", SPENDERS, SHORT)
_add("POST", "/api/v1/messages/count_tokens", SPENDERS, SHORT)
_add("POST", "/api/v1/responses", SPENDERS, SHORT)
_add("POST", "/api/v1/embeddings", SPENDERS, SHORT)
_add("POST", "/api/alpha/decisions", SPENDERS, SHORT)
_add("POST", "/api/v1/systemone", SPENDERS, SHORT)

# --- History
_SAID = '{"generation_id": "{generation}", "category": "other"}'
_add("GET", "/api/v1/generation?id={generation}", ANY_KEY)
_add("GET", "/api/v1/generation/{generation}/route", ANY_KEY)
# Nothing is kept of it, and only admins' keys are told so.
_add("GET", "/api/v1/generation/content?id={generation}", (401, 403, 404), admin=404)
_add("POST", "/api/v1/generation/feedback", MANAGERS, _SAID)
_add("GET", "/api/v1/activity", MANAGERS)
_add("GET", "/api/v1/activity/export", MANAGERS)
_add("POST", "/api/v1/routing/what-if", MANAGERS, "{}")
_add("POST", "/api/v1/privacy/erasures", MANAGERS, '{"user": "nobody"}')
_add("GET", "/api/v1/analytics/meta", MANAGERS)
_add("POST", "/api/v1/analytics/query", MANAGERS, '{"metrics": ["request_count"]}')

# --- Catalogue
_add("GET", "/api/v1/models", ANYONE)
_add("GET", "/api/v1/models/count", ANYONE)
_add("GET", "/api/v1/models/user", ANY_KEY)
_add("GET", "/api/v1/models/acme/small/endpoints", ANYONE)
_add("GET", "/api/v1/models/acme/small", ANYONE)
_add("GET", "/api/v1/model/acme/small", ANYONE)
_add("GET", "/api/v1/endpoints/zdr", ANYONE)
_add("GET", "/api/v1/providers", ANYONE)

# --- Keys
_add("GET", "/api/v1/key", ANY_KEY)
_add("GET", "/api/v1/keys", MANAGERS)
_add("GET", "/api/v1/keys?workspace_id={workspace}", MANAGERS, foreign=400)
_add("POST", "/api/v1/keys", MAKERS, '{"name": "k"}')
for _name in ('"workspace_id": "{workspace}"', '"creator_user_id": "{user}"'):
    _add("POST", "/api/v1/keys", MAKERS, f'{{"name": "k", {_name}}}', foreign=400)
_add("GET DELETE", "/api/v1/keys/{key}", MANAGERS)
_add("PATCH", "/api/v1/keys/{key}", MANAGERS, '{"name": "other"}')
_add("POST", "/api/v1/keys/{key}/rotate", MANAGERS, "{}")

# --- Apps
_CALLBACK = '"callback_url": "https://app.example/back"'
_add("POST", "/api/v1/auth/keys/code", ANY_KEY, f"{{{_CALLBACK}}}")
_HERE = f'{{{_CALLBACK}, "workspace_id": "{{workspace}}"}}'
# Inference keys speak of their own workspace only.
_add("POST", "/api/v1/auth/keys/code", (401, 403, 200), _HERE, foreign=400)
# Nobody's code, whatever the credential.
_add("POST", "/api/v1/auth/keys", (403, 403, 403), '{"code": "x"}')
_EXCHANGE = (
    '{"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": "x", '
    '"subject_token_type": "urn:ietf:params:oauth:token-type:access_token"}'
)
# Nobody's key, whatever the credential.
_add("POST", "/api/v1/oauth/token", (401, 401, 401), _EXCHANGE)
_add("GET", "/api/v1/oauth/jwks", ANYONE)
_add("GET", "/api/v1/auth/apps", MANAGERS)
_add("GET DELETE", "/api/v1/auth/apps/{app}", MANAGERS)
_add("GET", "/api/v1/auth/apps/{app}/keys", MANAGERS)
# The page sends whoever is not signed in to do so; keys are nothing to it.
_add("GET", "/auth?code_challenge=x", (302, 302, 302))
_add("POST", "/auth?code_challenge=x", (403, 403, 403))

# --- Organization
_add("GET", "/api/v1/organization/members", MANAGERS)
_add("GET", "/api/v1/organization/settings", MANAGERS)
_FILTERED = '{"is_filtered_model_catalog_enabled": false}'
_add("PATCH", "/api/v1/organization/settings", MANAGERS, _FILTERED)
_MAPPINGS = "/api/v1/scim/group-mappings"
_add("GET", "/api/v1/scim/groups", MANAGERS)
_add("GET", _MAPPINGS, MANAGERS)
_MAPPED = '{"scim_group_id": "{group}", "workspace_id": "{workspace}", "role": "member"}'
_add("POST", _MAPPINGS, MAKERS, _MAPPED, foreign=400)
_add("GET", f"{_MAPPINGS}/{{mapping}}", MANAGERS)
_add("PATCH", f"{_MAPPINGS}/{{mapping}}", MANAGERS, '{"role": "admin"}')
_add("DELETE", f"{_MAPPINGS}/{{mapping}}?keep_members=true", MANAGERS)
_add("POST", "/api/v1/scim/sync-jobs", (401, 403, 202), "{}")
_add("GET", "/api/v1/scim/sync-jobs/{sync_job}", MANAGERS)

# --- The connector for directories
for _about in ("ServiceProviderConfig", "ResourceTypes", "ResourceTypes/User", "Schemas"):
    _add("GET", f"/scim/v2/{_about}", MANAGERS)
_add("GET", "/scim/v2/Schemas/urn:ietf:params:scim:schemas:core:2.0:User", MANAGERS)
_add("POST", "/scim/v2/.search", (401, 403, 501), "{}")
_PERSON, _TEAM = '{"userName": "{new_slug}"}', '{"displayName": "{new_slug}"}'
_PATCHED = '{"Operations": [{"op": "replace", "path": "externalId", "value": "x"}]}'
for _kind, _thing, _one in (("Users", "scim_user", _PERSON), ("Groups", "group", _TEAM)):
    _add("GET", f"/scim/v2/{_kind}", MANAGERS)
    _add("POST", f"/scim/v2/{_kind}", MAKERS, _one)
    _add("POST", f"/scim/v2/{_kind}/.search", MANAGERS, "{}")
    _resource = f"/scim/v2/{_kind}/{{{_thing}}}"
    _add("GET", _resource, MANAGERS)
    _add("PUT", _resource, MANAGERS, _one)
    _add("PATCH", _resource, MANAGERS, _PATCHED)
    _add("DELETE", _resource, (401, 403, 204))
_add("GET POST PUT PATCH DELETE", "/scim/v2/Nothing", (401, 403, 404))

# --- Workspaces
_WORKSPACE = "/api/v1/workspaces/{workspace}"
_add("GET", "/api/v1/workspaces", MANAGERS)
_add("POST", "/api/v1/workspaces", MAKERS, '{"name": "Team", "slug": "{new_slug}"}')
_add("GET DELETE", _WORKSPACE, MANAGERS)
_add("PATCH", _WORKSPACE, MANAGERS, '{"name": "Crew"}')
_add("GET", f"{_WORKSPACE}/members", MANAGERS)
_add("POST", f"{_WORKSPACE}/members/add", MANAGERS, '{"user_ids": ["{user}"]}')
_add("POST", f"{_WORKSPACE}/members/remove", MANAGERS, '{"user_ids": ["{user}"]}')
_add("GET", f"{_WORKSPACE}/budgets", MANAGERS)
# There is none yet.
_add("GET", f"{_WORKSPACE}/budgets/daily", (401, 403, 404))
_add("PUT", f"{_WORKSPACE}/budgets/daily", MANAGERS, '{"limit_usd": 5}')
_add("DELETE", f"{_WORKSPACE}/budgets/daily", MANAGERS)

# --- Presets
_SAVED = '{"model": "acme/small", "temperature": 1}'
_add("GET", "/api/v1/presets", ANY_KEY)
_add("GET", "/api/v1/presets/{preset}", ANY_KEY)
_add("GET", "/api/v1/presets/{preset}/versions", ANY_KEY)
_add("GET", "/api/v1/presets/{preset}/versions/1", ANY_KEY)
for _form in ("chat/completions", "responses", "messages"):
    _add("POST", f"/api/v1/presets/{{new_slug}}/{_form}", ANY_KEY, _SAVED)

# --- Credentials of a team's own
_add("GET", "/api/v1/byok", MANAGERS)
_add("POST", "/api/v1/byok", MAKERS, '{"provider": "alpha", "key": "sk-abcd1234efgh"}')
_add("GET DELETE", "/api/v1/byok/{credential}", MANAGERS)
_add("PATCH", "/api/v1/byok/{credential}", MANAGERS, '{"name": "other"}')

# --- Notifications
_CHANNEL = "/api/v1/notifications/channels/{channel}"
_add("GET", "/api/v1/notifications/channels", MANAGERS)
_add(
    "POST",
    "/api/v1/notifications/channels",
    MAKERS,
    '{"name": "ops", "type": "webhook", "url": "https://hooks.example/in"}',
)
_add("GET DELETE", _CHANNEL, MANAGERS)
_add("PATCH", _CHANNEL, MANAGERS, '{"name": "other"}')
_add("POST", f"{_CHANNEL}/rotate", MANAGERS)
_add("POST", f"{_CHANNEL}/test", MAKERS)
_add("GET", "/api/v1/notifications/events", MANAGERS)
_add("GET", "/api/v1/notifications/deliveries", MANAGERS)
_add("POST", "/api/v1/notifications/deliveries/{delivery}/resend", MANAGERS)

# --- Destinations
_WEBHOOK = '{"type": "webhook", "name": "w", "config": {"url": "https://site.example/in"}}'
_DESTINATION = "/api/v1/observability/destinations/{destination}"
_add("GET", "/api/v1/observability/destinations", MANAGERS)
_add("GET", "/api/v1/observability/destinations?workspace_id={workspace}", MANAGERS, foreign=400)
_add("POST", "/api/v1/observability/destinations", MAKERS, _WEBHOOK)
_add("GET DELETE", _DESTINATION, MANAGERS)
_add("PATCH", _DESTINATION, MANAGERS, '{"name": "other"}')
_add("POST", f"{_DESTINATION}/test", MANAGERS)

# --- Guardrails
_GUARDRAIL = "/api/v1/guardrails/{guardrail}"
_add("GET", "/api/v1/guardrails", MANAGERS)
_add("POST", "/api/v1/guardrails", MAKERS, '{"name": "Careful"}')
_add("GET DELETE", _GUARDRAIL, MANAGERS)
_add("PATCH", _GUARDRAIL, MANAGERS, '{"name": "Strict"}')
for _kind, _one in (
    ("keys", '{"key_hashes": ["{key}"]}'),
    ("members", '{"member_user_ids": ["{user}"]}'),
):
    _add("GET", f"/api/v1/guardrails/assignments/{_kind}", MANAGERS)
    _add("GET", f"{_GUARDRAIL}/assignments/{_kind}", MANAGERS)
    _add("POST", f"{_GUARDRAIL}/assignments/{_kind}", MANAGERS, _one)
    _add("POST", f"{_GUARDRAIL}/assignments/{_kind}/remove", MANAGERS, _one)

# --- Credits
_add("GET", "/api/v1/credits", MANAGERS)
# Known by its signature alone; without a secret it is not there.
_add("POST", "/api/v1/credits/payments", (404, 404, 404), "{}")
_add("GET", "/api/v1/credits/statement", MANAGERS)
_add("POST", "/api/v1/credits/coinbase", (410, 410, 410))

# --- Interns
_INTERN = "/api/v1/interns/{intern}"
_TURN = '{"stream": true, "messages": [{"role": "user", "content": "Hi"}]}'
_add("GET", "/api/v1/interns", USERS, scoped=True)
# A key of nobody's owns none.
_add("POST", "/api/v1/interns", OWNERS, '{"name": "{name}"}', member=201, admin=201)
_add("GET", _INTERN, USERS, scoped=True)
_EDITED: dict[str, Any] = {"found_first": True, "scoped": True}
_add("PATCH", _INTERN, OWNERS, '{"description": "d"}', admin=200, **_EDITED)
_add("DELETE", _INTERN, OWNERS, admin=202, **_EDITED)
_add("POST", f"{_INTERN}/provision", OWNERS, admin=202, **_EDITED)
# It does not run, and was never booted.
_add("POST", f"{_INTERN}/suspend", OWNERS, admin=409, **_EDITED)
_add("POST", f"{_INTERN}/chat/completions", (401, 409, 401), _TURN)
# Only an intern's own key sends in its name.
_add("POST", f"{_INTERN}/fetch", OWNERS, '{"url": "https://a.example"}', found_first=True)

# --- Vaults; an intern's is its creator's and the admins' to change.
_VAULT = "/api/v1/vault/interns/{vaulted}"
_STORED, _COPIED = '{"value": "v", "hosts": ["api.example.com"]}', '{"names": ["{secret}"]}'
_add("GET", "/api/v1/vault/secrets", USERS)
# Another tenant stores one of its own under that name.
_add("PUT", "/api/v1/vault/secrets/{secret}", USERS, _STORED, foreign=200)
_add("DELETE", "/api/v1/vault/secrets/{secret}", (401, 204, 401))
_add("GET", f"{_VAULT}/secrets", USERS)
_add("POST", f"{_VAULT}/secrets/copy", OWNERS, _COPIED, admin=200, found_first=True)
# A secret may be called so.
for _name in ("token", "copy"):
    _add("PUT", f"{_VAULT}/secrets/{_name}", OWNERS, _STORED, admin=200, found_first=True)
    _add("DELETE", f"{_VAULT}/secrets/{_name}", OWNERS, admin=204, found_first=True)
_add("GET", f"{_VAULT}/effective-secrets", USERS)
_add("GET", f"{_VAULT}/connections", USERS)
