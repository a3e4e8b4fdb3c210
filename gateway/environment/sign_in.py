"""How people sign in to pages."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway import env
from gateway.env import SettingError
from gateway.environment.notifications import SENDS_EMAIL
from gateway.environment.process import PRODUCTION, PUBLIC_URL
from gateway.environment.section import Section


@dataclass(frozen=True)
class OidcProvider:
    """Where an organization's people sign in. `domains` are those of e-mail addresses whose people
    may sign in nowhere else."""

    id: str
    name: str
    issuer: str
    client_id: str
    client_secret: str
    domains: tuple[str, ...] = ()
    scopes: str = "openid profile email"
    # The claim that has what directories call `externalId`; empty where names are compared.
    external_id_claim: str = ""
    # How people must have proved there who they are. It asks for one of these in `acr`, one of
    # those in `amr`, and a sign-in at most so many seconds ago. Empty and None ask for nothing.
    acr_values: tuple[str, ...] = ()
    amr_values: tuple[str, ...] = ()
    max_age_s: int | None = None


setting = Section("Sign-in of people")
STAFF_SECOND_FACTOR = setting(
    "STAFF_SECOND_FACTOR",
    "whether operators see pages only once they used a second factor; by default in production",
    env.boolean,
    PRODUCTION,
)
EVERYBODY_SECOND_FACTOR = setting(
    "EVERYBODY_SECOND_FACTOR",
    "whether everybody sees pages only once they used one, but whom an identity provider lets in",
    env.boolean,
    False,
)
PASSWORD_WORDS = setting(
    "PASSWORD_WORDS",
    "words, with commas between, that anybody here would guess, such as names of the company and "
    "its products: what a password has of them does not count to its eight characters",
    env.words,
)
SESSION_HOURS = setting(
    "SESSION_HOURS",
    "hours after a sign-in at which the session ends, however much it is used",
    env.integer,
    24,
    minimum=1,
    maximum=8760,
)
SESSION_IDLE_MINUTES = setting(
    "SESSION_IDLE_MINUTES",
    "minutes without a page that somebody opens after which a session ends sooner; 0 is never",
    env.integer,
    480,
    maximum=525_600,
)
EMAIL_CONFIRMATION = setting(
    "EMAIL_CONFIRMATION",
    "whether people confirm their e-mail address by a link before they come in; not operators, nor "
    "whose address an identity provider has proved. Who forgot the password has a link "
    "mailed to a confirmed one. Needs `EMAIL_URL` and `PUBLIC_URL`",
    env.boolean,
    False,
)
if EMAIL_CONFIRMATION and not SENDS_EMAIL:
    raise SettingError("EMAIL_CONFIRMATION", "needs EMAIL_URL")
if EMAIL_CONFIRMATION and not PUBLIC_URL:
    raise SettingError("EMAIL_CONFIRMATION", "needs PUBLIC_URL, which the links begin with")
OIDC_ISSUER = setting(
    "OIDC_ISSUER",
    "identity provider at which people sign in, as its discovery document calls itself; empty is "
    "none",
    env.text,
)
OIDC_NAME = setting("OIDC_NAME", "what the sign-in page calls it", env.text, "your organization")
OIDC_CLIENT_ID = setting("OIDC_CLIENT_ID", "the gateway's name at that provider", env.text)
OIDC_CLIENT_SECRET = setting(
    "OIDC_CLIENT_SECRET", "its secret there; empty where PKCE alone is asked for", env.text
)
OIDC_SCOPES = setting(
    "OIDC_SCOPES", "what is asked for there, with spaces between", env.text, "openid profile email"
)
OIDC_DOMAINS = setting(
    "OIDC_DOMAINS",
    "domains of e-mail addresses, with commas between, whose people sign in there and by no "
    "password; operators excepted",
    env.host_names,
)
OIDC_EXTERNAL_ID_CLAIM = setting(
    "OIDC_EXTERNAL_ID_CLAIM",
    "claim that has the `externalId` which a directory gives people, such as `sub` or `oid`: whom "
    "a directory brought is recognized by it. Empty: by the user name, which nobody may choose",
    env.text,
)
OIDC_ACR_VALUES = setting(
    "OIDC_ACR_VALUES",
    "classes of sign-in that are asked for there, with commas between, one of which the token has "
    "to have in `acr`; empty takes any",
    env.words,
)
OIDC_AMR_VALUES = setting(
    "OIDC_AMR_VALUES",
    "methods, with commas between, one of which the token has to have in `amr`, such as `mfa`; "
    "empty takes any",
    env.words,
)
OIDC_MAX_AGE_SECONDS = setting(
    "OIDC_MAX_AGE_SECONDS",
    "seconds since somebody signed in there (`auth_time`) after which the provider asks again; "
    "empty is any time",
    env.optional_integer,
)
OIDC_PROVIDERS_FILE = setting(
    "OIDC_PROVIDERS_FILE",
    "JSON file with a list of further providers: objects with `id`, `name`, `issuer`, "
    "`client_id`, `client_secret` or `client_secret_file`, and where wanted `domains`, `scopes`, "
    "`external_id_claim`, `acr_values`, `amr_values` (both lists) and `max_age_seconds`",
    env.text,
)
IDENTITY_PRIVATE_HOSTS = tuple(
    setting(
        "IDENTITY_PRIVATE_HOSTS",
        "hosts of trusted issuers that may have private addresses or no TLS, with commas between; "
        "those of the providers above may",
        env.host_names,
    )
)


def _read_file(path: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError("OIDC_PROVIDERS_FILE", f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise SettingError("OIDC_PROVIDERS_FILE", f"{path} is not JSON: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SettingError("OIDC_PROVIDERS_FILE", f"{path} is no list of objects")
    return rows


def _build_provider(setting_name: str, row: dict[str, Any]) -> OidcProvider:
    for field in ("id", "issuer", "client_id"):
        if not isinstance(row.get(field), str) or not row[field]:
            raise SettingError(setting_name, f"a provider has no {field}")
    parts = urlsplit(row["issuer"])
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingError(setting_name, f"{row['issuer']!r} is no URL")
    if PRODUCTION and parts.scheme != "https":
        raise SettingError(setting_name, "needs https:// in production")
    for field in ("acr_values", "amr_values"):
        values = row.get(field, [])
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise SettingError(setting_name, f"{field} is no list of texts")
    if not isinstance(row.get("max_age_seconds", 0), int | None):
        raise SettingError(setting_name, "max_age_seconds is no number")
    secret = row.get("client_secret")
    if secret_file := row.get("client_secret_file", ""):
        try:
            secret = Path(secret_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise SettingError(setting_name, f"{secret_file}: {error.strerror}") from error
    return OidcProvider(
        id=row["id"],
        name=row.get("name") or row["id"],
        issuer=row["issuer"],
        client_id=row["client_id"],
        client_secret=secret or "",
        domains=tuple(each.lower() for each in row.get("domains", ())),
        scopes=row.get("scopes", "openid profile email"),
        external_id_claim=row.get("external_id_claim", ""),
        acr_values=tuple(row.get("acr_values", ())),
        amr_values=tuple(row.get("amr_values", ())),
        max_age_s=row.get("max_age_seconds"),
    )


def read_providers() -> tuple[OidcProvider, ...]:
    """All of them, by their order. Raises `SettingError`."""
    found = []
    if OIDC_ISSUER:
        row = {
            "id": "oidc",
            "name": OIDC_NAME,
            "issuer": OIDC_ISSUER,
            "client_id": OIDC_CLIENT_ID,
            "client_secret": OIDC_CLIENT_SECRET,
            "domains": OIDC_DOMAINS,
            "scopes": OIDC_SCOPES,
            "external_id_claim": OIDC_EXTERNAL_ID_CLAIM,
            "acr_values": OIDC_ACR_VALUES,
            "amr_values": OIDC_AMR_VALUES,
            "max_age_seconds": OIDC_MAX_AGE_SECONDS,
        }
        found.append(_build_provider("OIDC_ISSUER", row))
    if OIDC_PROVIDERS_FILE:
        rows = _read_file(OIDC_PROVIDERS_FILE)
        found += [_build_provider("OIDC_PROVIDERS_FILE", row) for row in rows]
    if len({each.id for each in found}) < len(found):
        raise SettingError("OIDC_PROVIDERS_FILE", "two providers have one id")
    return tuple(found)


OIDC_PROVIDERS = read_providers()
