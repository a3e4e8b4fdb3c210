"""Who gets what, route by route: the one table that access, ids of others and numbers of queries
are tried by. A route without a row fails the build.

To add a route, add its pattern, and for each method a `Row`, or a tuple of rows to be tried one
after the other. `{key}` and the like stand for an object of the first tenant, made for the request;
`tests.support.tenants.THINGS` says how, and a new kind of object is one entry there.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """The status that a method gives nobody, an inference key and a management key.

    `member` and `admin` are for inference keys that a plain member or an admin made, where these
    get something else. `foreign` is what another tenant's key of an allowed kind gets for a row
    that names an object; 404 unless said. With `found_first` a key that may not is told so of its
    own tenant's object only, and that others' are not there.
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


Rows = Row | tuple[Row, ...]
ANYONE = (200, 200, 200)
ANY_KEY = (401, 200, 200)
MANAGERS = (401, 403, 200)
MAKERS = (401, 403, 201)
SPENDERS = (401, 400, 401)
SHORT = '{"model": "nope/none", "messages": []}'
_KEY = "api/^v1/keys/(?P<key_hash>[^/]+)"
_WORKSPACE = "api/^v1/workspaces/(?P<workspace>[^/]+)"
_MODEL = "(?P<author>[^/]+)/(?P<slug>[^/]+)"
_MEMBERS = "/api/v1/workspaces/{workspace}/members"
_ONE_USER = '{"user_ids": ["{user}"]}'
_SAID = '{"generation_id": "{generation}", "category": "other"}'
_ASKED = '{"metrics": ["request_count"]}'
_PRESET = "api/^v1/presets/(?P<slug>[^/]+)"
_SAVED = '{"model": "acme/small", "temperature": 1}'
_BYOK = "api/^v1/byok"
_BROUGHT = '{"provider": "alpha", "key": "sk-abcd1234efgh"}'
_GUARDRAIL = "api/^v1/guardrails/(?P<guardrail>[^/]+)"
_INTERN = "api/^v1/interns/(?P<intern_id>[^/]+)"
_SAID_TO_INTERN = '{"stream": true, "messages": [{"role": "user", "content": "Hi"}]}'
_ONE_KEY = '{"key_hashes": ["{key}"]}'
_ONE_MEMBER = '{"member_user_ids": ["{user}"]}'


def _assignments(kind: str, body: str) -> dict[str, dict[str, Rows]]:
    path = f"/api/v1/guardrails/{{guardrail}}/assignments/{kind}"
    return {
        f"{_GUARDRAIL}/assignments/{kind}$": {
            "GET": Row(path, *MANAGERS),
            "POST": Row(path, *MANAGERS, body),
        },
        f"{_GUARDRAIL}/assignments/{kind}/remove$": {
            "POST": Row(f"{path}/remove", *MANAGERS, body)
        },
    }


_VAULT = "api/^v1/vault/interns/(?P<intern_id>[^/]+)"
_VAULT_PATH = "/api/v1/vault/interns/{vaulted}"
_STORED = '{"value": "v", "hosts": ["api.example.com"]}'


# Route → method → row. HEAD is as GET, other methods are 405 for everyone.
TABLE: dict[str, dict[str, Rows]] = {
    "healthz": {"GET": Row("/healthz", *ANYONE)},
    "readyz": {"GET": Row("/readyz", *ANYONE)},
    "api/v1/openapi.json": {"GET": Row("/api/v1/openapi.json", *ANYONE)},
    "^docs/?$": {"GET": Row("/docs", *ANYONE)},
    # --- Inference
    "api/v1/chat/completions": {"POST": Row("/api/v1/chat/completions", *SPENDERS, SHORT)},
    "api/v1/messages": {"POST": Row("/api/v1/messages", *SPENDERS, SHORT)},
    "api/v1/messages/count_tokens": {
        "POST": Row("/api/v1/messages/count_tokens", *SPENDERS, SHORT)
    },
    "api/v1/responses": {"POST": Row("/api/v1/responses", *SPENDERS, SHORT)},
    "api/alpha/decisions": {"POST": Row("/api/alpha/decisions", *SPENDERS, SHORT)},
    "api/v1/systemone": {"POST": Row("/api/v1/systemone", *SPENDERS, SHORT)},
    # --- History
    "api/v1/generation": {"GET": Row("/api/v1/generation?id={generation}", *ANY_KEY)},
    # Nothing is kept of it, and only admins' keys are told so.
    "api/v1/generation/content": {
        "GET": Row("/api/v1/generation/content?id={generation}", 401, 403, 404, admin=404)
    },
    "api/v1/generation/feedback": {"POST": Row("/api/v1/generation/feedback", *MANAGERS, _SAID)},
    "api/v1/activity": {"GET": Row("/api/v1/activity", *MANAGERS)},
    "api/v1/analytics/meta": {"GET": Row("/api/v1/analytics/meta", *MANAGERS)},
    "api/v1/analytics/query": {"POST": Row("/api/v1/analytics/query", *MANAGERS, _ASKED)},
    # --- Catalogue
    "api/v1/models": {"GET": Row("/api/v1/models", *ANYONE)},
    "api/v1/models/count": {"GET": Row("/api/v1/models/count", *ANYONE)},
    "api/v1/models/user": {"GET": Row("/api/v1/models/user", *ANY_KEY)},
    f"api/^v1/models/{_MODEL}/endpoints$": {
        "GET": Row("/api/v1/models/acme/small/endpoints", *ANYONE)
    },
    f"api/^v1/models/{_MODEL}$": {"GET": Row("/api/v1/models/acme/small", *ANYONE)},
    f"api/^v1/model/{_MODEL}$": {"GET": Row("/api/v1/model/acme/small", *ANYONE)},
    "api/v1/endpoints/zdr": {"GET": Row("/api/v1/endpoints/zdr", *ANYONE)},
    "api/v1/providers": {"GET": Row("/api/v1/providers", *ANYONE)},
    # --- Keys
    "api/v1/key": {"GET": Row("/api/v1/key", *ANY_KEY)},
    "api/v1/keys": {
        "GET": (
            Row("/api/v1/keys", *MANAGERS),
            Row("/api/v1/keys?workspace_id={workspace}", *MANAGERS, foreign=400),
        ),
        "POST": (
            Row("/api/v1/keys", *MAKERS, '{"name": "k"}'),
            Row(
                "/api/v1/keys", *MAKERS, '{"name": "k", "workspace_id": "{workspace}"}', foreign=400
            ),
            Row("/api/v1/keys", *MAKERS, '{"name": "k", "creator_user_id": "{user}"}', foreign=400),
        ),
    },
    f"{_KEY}$": {
        "GET": Row("/api/v1/keys/{key}", *MANAGERS),
        "PATCH": Row("/api/v1/keys/{key}", *MANAGERS, '{"name": "other"}'),
        "DELETE": Row("/api/v1/keys/{key}", *MANAGERS),
    },
    f"{_KEY}/rotate$": {"POST": Row("/api/v1/keys/{key}/rotate", *MANAGERS, "{}")},
    # --- Workspaces
    "api/v1/workspaces": {
        "GET": Row("/api/v1/workspaces", *MANAGERS),
        "POST": Row("/api/v1/workspaces", *MAKERS, '{"name": "Team", "slug": "{new_slug}"}'),
    },
    f"{_WORKSPACE}$": {
        "GET": Row("/api/v1/workspaces/{workspace}", *MANAGERS),
        "PATCH": Row("/api/v1/workspaces/{workspace}", *MANAGERS, '{"name": "Crew"}'),
        "DELETE": Row("/api/v1/workspaces/{workspace}", *MANAGERS),
    },
    f"{_WORKSPACE}/members$": {"GET": Row(_MEMBERS, *MANAGERS)},
    f"{_WORKSPACE}/members/add$": {"POST": Row(f"{_MEMBERS}/add", *MANAGERS, _ONE_USER)},
    f"{_WORKSPACE}/members/remove$": {"POST": Row(f"{_MEMBERS}/remove", *MANAGERS, _ONE_USER)},
    f"{_WORKSPACE}/budgets$": {"GET": Row("/api/v1/workspaces/{workspace}/budgets", *MANAGERS)},
    f"{_WORKSPACE}/budgets/(?P<interval>[^/]+)$": {
        # There is none yet.
        "GET": Row("/api/v1/workspaces/{workspace}/budgets/daily", 401, 403, 404),
        "PUT": Row("/api/v1/workspaces/{workspace}/budgets/daily", *MANAGERS, '{"limit_usd": 5}'),
        "DELETE": Row("/api/v1/workspaces/{workspace}/budgets/daily", *MANAGERS),
    },
    # --- Presets
    "api/v1/presets": {"GET": Row("/api/v1/presets", *ANY_KEY)},
    f"{_PRESET}$": {"GET": Row("/api/v1/presets/{preset}", *ANY_KEY)},
    f"{_PRESET}/versions$": {"GET": Row("/api/v1/presets/{preset}/versions", *ANY_KEY)},
    f"{_PRESET}/versions/(?P<version>[^/]+)$": {
        "GET": Row("/api/v1/presets/{preset}/versions/1", *ANY_KEY)
    },
    **{
        f"{_PRESET}/{form}$": {
            "POST": Row(f"/api/v1/presets/{{new_slug}}/{form}", *ANY_KEY, _SAVED)
        }
        for form in ("chat/completions", "responses", "messages")
    },
    # --- Credentials of a team's own
    "api/v1/byok": {
        "GET": Row("/api/v1/byok", *MANAGERS),
        "POST": Row("/api/v1/byok", *MAKERS, _BROUGHT),
    },
    f"{_BYOK}/(?P<credential>[^/]+)$": {
        "GET": Row("/api/v1/byok/{credential}", *MANAGERS),
        "PATCH": Row("/api/v1/byok/{credential}", *MANAGERS, '{"name": "other"}'),
        "DELETE": Row("/api/v1/byok/{credential}", *MANAGERS),
    },
    # --- Guardrails
    "api/v1/guardrails": {
        "GET": Row("/api/v1/guardrails", *MANAGERS),
        "POST": Row("/api/v1/guardrails", *MAKERS, '{"name": "Careful"}'),
    },
    "api/v1/guardrails/assignments/keys": {
        "GET": Row("/api/v1/guardrails/assignments/keys", *MANAGERS)
    },
    "api/v1/guardrails/assignments/members": {
        "GET": Row("/api/v1/guardrails/assignments/members", *MANAGERS)
    },
    f"{_GUARDRAIL}$": {
        "GET": Row("/api/v1/guardrails/{guardrail}", *MANAGERS),
        "PATCH": Row("/api/v1/guardrails/{guardrail}", *MANAGERS, '{"name": "Strict"}'),
        "DELETE": Row("/api/v1/guardrails/{guardrail}", *MANAGERS),
    },
    **_assignments("keys", _ONE_KEY),
    **_assignments("members", _ONE_MEMBER),
    # --- Credits
    "api/v1/credits": {"GET": Row("/api/v1/credits", *MANAGERS)},
    # Known by its signature alone; without a secret it is not there.
    "api/v1/credits/payments": {"POST": Row("/api/v1/credits/payments", 404, 404, 404, "{}")},
    "api/v1/credits/statement": {"GET": Row("/api/v1/credits/statement", *MANAGERS)},
    "api/v1/credits/coinbase": {"POST": Row("/api/v1/credits/coinbase", 410, 410, 410)},
    # --- Interns
    "api/v1/interns": {
        "GET": Row("/api/v1/interns", 401, 200, 401),
        # A key of nobody's owns none.
        "POST": Row("/api/v1/interns", 401, 403, 401, '{"name": "{name}"}', member=201, admin=201),
    },
    f"{_INTERN}$": {
        "GET": Row("/api/v1/interns/{intern}", 401, 200, 401),
        "PATCH": Row(
            "/api/v1/interns/{intern}",
            401,
            403,
            401,
            '{"description": "d"}',
            admin=200,
            found_first=True,
        ),
        "DELETE": Row("/api/v1/interns/{intern}", 401, 403, 401, admin=202, found_first=True),
    },
    f"{_INTERN}/provision$": {
        "POST": Row(
            "/api/v1/interns/{intern}/provision", 401, 403, 401, admin=202, found_first=True
        )
    },
    # It does not run.
    f"{_INTERN}/suspend$": {
        "POST": Row("/api/v1/interns/{intern}/suspend", 401, 403, 401, admin=409, found_first=True)
    },
    # It was never booted.
    f"{_INTERN}/chat/completions$": {
        "POST": Row("/api/v1/interns/{intern}/chat/completions", 401, 409, 401, _SAID_TO_INTERN)
    },
    # --- Vaults; an intern's is its creator's and the admins' to change.
    "api/v1/vault/secrets": {"GET": Row("/api/v1/vault/secrets", 401, 200, 401)},
    "api/^v1/vault/secrets/(?P<name>[^/]+)$": {
        # Another tenant stores one of its own under that name.
        "PUT": Row("/api/v1/vault/secrets/{secret}", 401, 200, 401, _STORED, foreign=200),
        "DELETE": Row("/api/v1/vault/secrets/{secret}", 401, 204, 401),
    },
    f"{_VAULT}/secrets$": {"GET": Row(f"{_VAULT_PATH}/secrets", 401, 200, 401)},
    f"{_VAULT}/secrets/(?P<name>[^/]+)$": {
        "PUT": Row(
            f"{_VAULT_PATH}/secrets/token", 401, 403, 401, _STORED, admin=200, found_first=True
        ),
        "DELETE": Row(f"{_VAULT_PATH}/secrets/token", 401, 403, 401, admin=204, found_first=True),
    },
    f"{_VAULT}/secrets/copy$": {
        "POST": Row(
            f"{_VAULT_PATH}/secrets/copy",
            401,
            403,
            401,
            '{"names": ["{secret}"]}',
            admin=200,
            found_first=True,
        ),
        # A secret may be called so.
        "PUT": Row(
            f"{_VAULT_PATH}/secrets/copy", 401, 403, 401, _STORED, admin=200, found_first=True
        ),
        "DELETE": Row(f"{_VAULT_PATH}/secrets/copy", 401, 403, 401, admin=204, found_first=True),
    },
    f"{_VAULT}/effective-secrets$": {"GET": Row(f"{_VAULT_PATH}/effective-secrets", 401, 200, 401)},
    f"{_VAULT}/connections$": {"GET": Row(f"{_VAULT_PATH}/connections", 401, 200, 401)},
    # Only an intern's own key sends in its name.
    f"{_INTERN}/fetch$": {
        "POST": Row(
            "/api/v1/interns/{intern}/fetch",
            401,
            403,
            401,
            '{"url": "https://a.example"}',
            found_first=True,
        )
    },
}
