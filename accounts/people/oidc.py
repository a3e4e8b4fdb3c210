"""Signing in at an organization's identity provider: authorization code with PKCE, state, nonce.

What was begun is kept in a sealed cookie for ten minutes, so that nobody who only begins leaves a
row here. `accounts.sign_in` knows the states that were answered: an answer is good once.
"""

import base64
import json
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect

from accounts.identity.issuers import (
    LEEWAY_S,
    Issuer,
    IssuerSilent,
    TokenRefused,
    fetch_json,
    find_issuer,
    verify,
)
from gateway.environment.sign_in import OidcProvider
from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings
from gateway.sealing import UnsealError, seal, unseal

_PURPOSE: Final = "oidc-begun"
_LIFETIME_S: Final = 600
# Cookies of the kind in one browser, and bytes of one: all are sent together, in one header, of
# which 8,190 bytes are read.
_BEGUN_MAX: Final = 5
_SEALED_BYTES_MAX: Final = 1200
_COOKIE: Final = "oidc-begun-"
# An identity token has no type of its own; other tokens of the provider have.
ID_TOKENS: Final = frozenset({"jwt"})
_COOKIE_ENDING: Final = re.compile(r"[0-9a-f]+-[0-9a-f]{12}")
# Where the session was made, and with which token, for the sign-out there.
_ENTERED: Final = "oidc_entered"


class SignInRefused(Exception):
    """Nobody comes in by this answer. The text says why, for audit records."""


class StrayAnswer(SignInRefused):
    """Nobody began here what it answers."""


@dataclass(frozen=True)
class Identity:
    """Somebody as a provider names it, and all that it says of the person."""

    provider: OidcProvider
    subject: str
    claims: JsonObject
    id_token: str


def find_provider(provider_id: str) -> OidcProvider | None:
    return next((each for each in settings.OIDC_PROVIDERS if each.id == provider_id), None)


def list_forced_providers(*names: str) -> list[OidcProvider]:
    """The providers, one of which the person of these names or addresses has to sign in at."""
    domains = {name.rpartition("@")[2].lower() for name in names if "@" in name}
    return [each for each in settings.OIDC_PROVIDERS if domains & set(each.domains)]


def begin(
    request: HttpRequest, provider: OidcProvider, *, back_to: str, next_path: str
) -> HttpResponse:
    """Sends the browser to the provider. Raises `IssuerSilent`."""
    facts = find_issuer(provider.issuer).read_facts()
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    begun = {
        "provider": provider.id,
        "nonce": nonce,
        "verifier": verifier,
        "next": next_path,
        "at": time.time(),
    }
    digest = sha256(verifier.encode()).digest()
    query = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": back_to,
        "scope": provider.scopes,
        "state": state,
        "nonce": nonce,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    if provider.acr_values:
        query["acr_values"] = " ".join(provider.acr_values)
    if provider.max_age_s is not None:
        query["max_age"] = str(provider.max_age_s)
    endpoint = str(facts["authorization_endpoint"])
    answer = HttpResponseRedirect(f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}")
    _keep_begun(request, answer, state, begun)
    return answer


def _keep_begun(
    request: HttpRequest, answer: HttpResponseBase, state: str, begun: JsonObject
) -> None:
    """In the browser alone, in the place of the oldest of too many."""
    sealed = seal(json.dumps(begun), purpose=_PURPOSE, row=state)
    if len(sealed) > _SEALED_BYTES_MAX:
        sealed = seal(json.dumps(begun | {"next": "/"}), purpose=_PURPOSE, row=state)
    there = sorted(_list_cookies(request))
    for name in there[: max(0, len(there) - _BEGUN_MAX + 1)]:
        answer.delete_cookie(name)
    answer.set_cookie(
        # Later ones come after earlier ones.
        f"{settings.COOKIE_PREFIX}{_COOKIE}{int(begun['at'] * 1000):x}-{_shorten(state)}",
        sealed,
        max_age=_LIFETIME_S,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        # The provider sends the browser back from elsewhere.
        samesite="Lax",
    )


def read_begun(request: HttpRequest, provider: OidcProvider) -> JsonObject:
    """What was begun in this browser and is answered now. Raises `StrayAnswer`."""
    state = request.GET.get("state", "")
    for name in _find_cookies(request):
        with suppress(UnsealError):
            begun = json.loads(unseal(request.COOKIES[name], purpose=_PURPOSE, row=state))
            if begun["provider"] == provider.id:
                return dict(begun)
    raise StrayAnswer("the state is none that was begun here, or was used")


def forget_begun(request: HttpRequest, answer: HttpResponseBase) -> None:
    """Take what was answered out of the browser."""
    for name in _find_cookies(request):
        answer.delete_cookie(name)


def _find_cookies(request: HttpRequest) -> list[str]:
    """Of the state in the query; a text that is no state has none."""
    ending = f"-{_shorten(request.GET.get('state', ''))}"
    return [name for name in _list_cookies(request) if name.endswith(ending)]


def _list_cookies(request: HttpRequest) -> list[str]:
    """By their names. Of other names, which browsers may send too, none could be taken out."""
    beginning = f"{settings.COOKIE_PREFIX}{_COOKIE}"
    return [
        name
        for name in request.COOKIES
        if name.startswith(beginning) and _COOKIE_ENDING.fullmatch(name, len(beginning))
    ]


def _shorten(state: str) -> str:
    return sha256(state.encode()).hexdigest()[:12]


def complete(
    request: HttpRequest, provider: OidcProvider, kept: JsonObject, *, back_to: str
) -> Identity:
    """The person who came back from the provider to what `read_begun` gave. Raises `SignInRefused`,
    and `IssuerSilent` where the provider does not answer."""
    if time.time() - kept["at"] > _LIFETIME_S:
        raise SignInRefused("it was begun too long ago")
    if "code" not in request.GET:
        raise SignInRefused(f"the provider says {request.GET.get('error', 'nothing')[:100]}")
    issuer = find_issuer(provider.issuer)
    id_token = _exchange(issuer, provider, request.GET["code"], kept["verifier"], back_to)
    try:
        claims = verify(id_token, issuer, audience=provider.client_id, types=ID_TOKENS)
    except TokenRefused as error:
        raise SignInRefused(f"the token proves nothing: {error}") from error
    if not secrets.compare_digest(str(claims.get("nonce", "")), kept["nonce"]):
        raise SignInRefused("the token was made for another sign-in")
    azp = claims.get("azp", provider.client_id)
    if azp != provider.client_id:
        raise SignInRefused("the token was made for another client")
    _check_strength(provider, claims)
    if str(claims.get("email_verified", True)).lower() == "false":
        # Anybody's, as far as the provider knows. Some write the truth as a text.
        claims.pop("email", None)
    return Identity(provider, str(claims["sub"]), claims, id_token)


def _check_strength(provider: OidcProvider, claims: JsonObject) -> None:
    """Raise `SignInRefused` where the person has proved less there, or longer ago, than is asked
    for. A provider that says nothing of it has proved nothing."""
    if provider.acr_values and claims.get("acr") not in provider.acr_values:
        raise SignInRefused("the provider names another acr than was asked for")
    methods = claims.get("amr")
    found = {each for each in methods if isinstance(each, str)} if isinstance(methods, list) else {}
    if provider.amr_values and not set(provider.amr_values) & set(found):
        raise SignInRefused("the provider names none of the methods that are asked for in amr")
    if provider.max_age_s is not None:
        at = claims.get("auth_time")
        if not isinstance(at, int | float) or time.time() - at > provider.max_age_s + LEEWAY_S:
            raise SignInRefused("the person signed in there too long ago")


def keep_entry(request: HttpRequest, identity: Identity) -> None:
    """Remember in the session by which provider the person came in."""
    request.session[_ENTERED] = {"provider": identity.provider.id, "token": identity.id_token}


def build_sign_out_url(request: HttpRequest, *, back_to: str) -> tuple[OidcProvider, str] | None:
    """The page where the person signs out of the provider too, if there is one."""
    entered: dict[str, str] = request.session.get(_ENTERED) or {}
    provider = find_provider(entered.get("provider", ""))
    if provider is None:
        return None
    try:
        endpoint = find_issuer(provider.issuer).read_facts().get("end_session_endpoint")
    except IssuerSilent:
        return None
    if not endpoint:
        return None
    query = {
        "id_token_hint": entered["token"],
        "client_id": provider.client_id,
        "post_logout_redirect_uri": back_to,
    }
    return provider, f"{endpoint}?{urlencode(query)}"


def _exchange(
    issuer: Issuer, provider: OidcProvider, code: str, verifier: str, back_to: str
) -> str:
    """The identity token that the code stands for. Raises `SignInRefused`, `IssuerSilent`."""
    facts = issuer.read_facts()
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": back_to,
        "code_verifier": verifier,
        "client_id": provider.client_id,
    }
    headers = [("Content-Type", "application/x-www-form-urlencoded")]
    methods = facts.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    if provider.client_secret and "client_secret_basic" in methods:
        both = ":".join(
            quote(each, safe="") for each in (provider.client_id, provider.client_secret)
        )
        headers.append(("Authorization", f"Basic {base64.b64encode(both.encode()).decode()}"))
    elif provider.client_secret:
        form["client_secret"] = provider.client_secret
    try:
        answer = fetch_json(
            str(facts["token_endpoint"]),
            method="POST",
            body=urlencode(form).encode(),
            headers=tuple(headers),
        )
    except IssuerSilent as error:
        if str(error) in ("it answered 400", "it answered 401"):
            raise SignInRefused(f"the provider takes the code for none: {error}") from error
        raise
    token = answer.get("id_token")
    if not isinstance(token, str):
        raise SignInRefused("the provider gave no identity token")
    return token
