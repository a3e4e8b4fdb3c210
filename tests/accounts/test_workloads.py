"""Programs that come with a token of an issuer that their account trusts."""

import time
from collections.abc import Iterator
from secrets import randbelow
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.test import Client, RequestFactory

from accounts.authentication import find_token_tags, forget_keys
from accounts.identity.issuers import Issuer as KnownIssuer
from accounts.identity.issuers import forget_issuers, verify
from accounts.identity.own_tokens import AUDIENCE, find_issuer_name
from accounts.identity.workloads import forget_tokens
from accounts.models import ApiKey, AuditRecord, TrustedIssuer, Workload
from accounts.services.records import SYSTEM
from accounts.services.workloads import change_workload, create_workload, delete_workload
from gateway.limits.limits import MINUTE_S
from tests.accounts.office import KEYS, Office, open_office
from tests.support.issuer import Issuer, new_key
from tests.support.windows import within_one

pytestmark = [pytest.mark.django_db, pytest.mark.both]
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
TYPES = "urn:ietf:params:oauth:token-type:"


@pytest.fixture
def issuer(settings: Any) -> Iterator[Issuer]:
    settings.IDENTITY_PRIVATE_HOSTS = ("127.0.0.1",)
    forget()
    made = Issuer()
    yield made
    made.stop()
    forget()


def forget() -> None:
    """What a second of waiting would do."""
    forget_tokens()
    forget_keys()
    forget_issuers()


def forget_keys_only() -> None:
    forget_tokens()
    forget_keys()


def trust(office: Office, issuer: Issuer) -> TrustedIssuer:
    return TrustedIssuer.objects.create(
        account=office.account, name="CI", url=issuer.url, audience="gateway"
    )


def build(office: Office, issuer: Issuer, **fields: Any) -> Workload:
    usual: dict[str, Any] = {
        "issuer": trust(office, issuer),
        "name": "builds",
        "conditions": {"sub": "repo:acme/*"},
        "workspace": office.account.workspaces.get(),
        "by": SYSTEM,
    }
    return create_workload(**usual | fields)


def status(office: Office, token: str, path: str = "/key") -> int:
    code: int = office.call("GET", path, key=token)[0]
    return code


def exchange(**fields: str) -> Any:
    form = {"grant_type": EXCHANGE, "subject_token_type": f"{TYPES}jwt"} | fields
    kind = "application/x-www-form-urlencoded"
    return Client().post("/api/v1/oauth/token", urlencode(form), content_type=kind)


def test_a_token_stands_for_a_key_with_its_limits(office: Office, issuer: Issuer) -> None:
    workload = build(office, issuer, limit_nano=2_500_000_000)

    code, said = office.call("GET", "/key", key=issuer.make_token())

    assert code == 200
    assert (said["data"]["limit"], said["data"]["is_management_key"]) == (2.5, False)
    assert said["data"]["workspace_id"] == str(workload.key.workspace_id)
    assert office.ok("GET", f"{KEYS}/{workload.key.hash}")["data"]["name"] == "builds"


def test_a_workload_may_manage_within_scopes(office: Office, issuer: Issuer) -> None:
    build(office, issuer, workspace=None, scopes=["keys"])
    token = issuer.make_token()

    assert [status(office, token, path) for path in (KEYS, "/credits")] == [200, 403]


UNFIT_CLAIMS: list[dict[str, Any]] = [
    {"exp": 1},
    {"exp": None},
    {"aud": "another"},
    {"aud": None},
    {"iss": "https://elsewhere.example"},
    {"iss": None},
    {"iss": "\0"},
    {"iss": "\ud800"},
    {"sub": "repo:other/app:main"},
    {"sub": None},
    {"nbf": 2**33},
]


def test_claims_that_do_not_fit_open_nothing(office: Office, issuer: Issuer) -> None:
    build(office, issuer)
    for claims in UNFIT_CLAIMS:
        assert status(office, issuer.make_token(**claims)) == 401, claims


def test_signatures_of_others_open_nothing(office: Office, issuer: Issuer) -> None:
    build(office, issuer)
    public = issuer.keys["first"].public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    good = issuer.make_token()
    head, claims, signature = good.split(".")
    # PyJWT itself refuses to sign with a public key, so this is done by hand.
    secret = pem.hex()
    forged = {
        "another key": issuer.make_token(key=new_key()),
        "a shared secret": issuer.make_token(key=secret, algorithm="HS256"),
        "no algorithm": jwt.encode(
            {"iss": issuer.url, "aud": "gateway", "sub": "repo:acme/a", "exp": 2**33},
            "",
            algorithm="none",
        ),
        "no signature": f"{head}.{claims}.",
        "another type": issuer.make_token(typ="application/logout+jwt"),
        "other claims": f"{head}.{issuer.make_token(sub='repo:acme/x').split('.')[1]}.{signature}",
        "nonsense": "eyJ.eyJ.x",
    }
    assert {name: status(office, token) for name, token in forged.items()} == dict.fromkeys(
        forged, 401
    )
    assert status(office, good) == 200


def test_keys_are_asked_for_once_and_again_when_they_rotate(office: Office, issuer: Issuer) -> None:
    build(office, issuer)
    for number in range(5):
        assert status(office, issuer.make_token(jti=str(number))) == 200
    assert issuer.asked == 1
    # A new key is found at once.
    issuer.rotate()
    assert status(office, issuer.make_token()) == 200
    assert issuer.asked == 2
    # An issuer is asked again by whoever learns nothing for a while, not by each guess.
    for _ in range(5):
        assert status(office, issuer.make_token(key=new_key())) == 401
    assert issuer.asked == 2
    issuer.rotate()
    forget_issuers()
    assert status(office, issuer.make_token()) == 200


def test_an_issuer_s_keys_may_move_and_both_places_may_be_silent(settings: Any) -> None:
    settings.IDENTITY_PRIVATE_HOSTS = ("127.0.0.1",)

    class Moving(Issuer):
        place = "/keys"

        def answer(self, path: str) -> dict[str, Any]:
            if path.startswith("/.well-known/"):
                return {"issuer": self.url, "jwks_uri": f"{self.url}{self.place}"}
            return super().answer(path) if path == self.place else {}

    issuer = Moving()
    known = KnownIssuer(issuer.url, ask_again_s=0, fresh_s=0)
    assert verify(issuer.make_token(), known, audience="gateway")
    issuer.place = "/moved"
    issuer.rotate()
    assert verify(issuer.make_token(), known, audience="gateway")
    token = issuer.make_token()
    issuer.stop()
    assert verify(token, known, audience="gateway")
    assert known.read_facts()["jwks_uri"].endswith("/moved")


def test_tokens_count_while_the_issuer_is_away(office: Office, issuer: Issuer) -> None:
    build(office, issuer)
    assert status(office, issuer.make_token()) == 200
    issuer.stop()

    assert status(office, issuer.make_token(jti="new")) == 200
    forget()
    code, said = office.call("GET", "/key", key=issuer.make_token())
    assert (code, said["error"]["message"]) == (503, "The token's issuer does not answer")


def test_an_issuer_that_does_not_answer_is_asked_once_for_many(
    office: Office, issuer: Issuer
) -> None:
    class Silent(Issuer):
        def answer(self, path: str) -> dict[str, Any]:
            self.asked += 1
            return {}

    silent = Silent()
    build(office, silent)

    codes = [status(office, silent.make_token(jti=str(number))) for number in range(3)]

    silent.stop()
    assert (codes, silent.asked) == ([503, 503, 503], 1)


def test_one_account_s_mistyped_address_of_keys_is_nobody_else_s_trouble(
    office: Office, issuer: Issuer
) -> None:
    other = open_office("other")
    build(other, issuer, conditions={"sub": "repo:x/*"})
    TrustedIssuer.objects.update(jwks_url="http://127.0.0.1:1/keys")
    build(office, issuer)

    assert status(office, issuer.make_token()) == 200
    # It might be good for the other account.
    assert status(office, issuer.make_token(sub="repo:nobody/app")) == 503


def test_what_is_taken_away_ends(office: Office, issuer: Issuer) -> None:
    workload, token = build(office, issuer), issuer.make_token()
    assert status(office, token) == 200
    TrustedIssuer.objects.update(enabled=False)
    forget_keys_only()
    assert status(office, token) == 401
    TrustedIssuer.objects.update(enabled=True)
    change_workload(workload=workload, conditions={"sub": "repo:other/*"}, tags=None, by=SYSTEM)
    forget_keys_only()
    assert status(office, token) == 401
    change_workload(workload=workload, conditions={"sub": "repo:acme/*"}, tags=None, by=SYSTEM)
    forget_keys_only()
    assert status(office, token) == 200

    delete_workload(workload=workload, by=SYSTEM)

    forget_keys_only()
    assert status(office, token) == 401
    assert ApiKey.objects.get(pk=workload.key_id).deleted_at
    told = AuditRecord.objects.filter(object_type="workload").order_by("pk")
    assert [record.action for record in told] == ["created", "updated", "updated", "deleted"]


def tags_of(token: str) -> dict[str, str]:
    request = RequestFactory().get("/", headers={"Authorization": f"Bearer {token}"})
    return dict(find_token_tags(request))


def test_claims_give_tags_which_an_exchanged_token_keeps(office: Office, issuer: Issuer) -> None:
    given = {"team": "build", "branch": "{ref}", "number": "{run.id}", "actor": "{nobody}"}
    workload = build(office, issuer, tags=given)
    token = issuer.make_token(ref="main", run={"id": 7})
    expected = {"team": "build", "branch": "main", "number": "7"}
    assert (status(office, token), tags_of(token)) == (200, expected)
    short = exchange(subject_token=token).json()["access_token"]
    assert (status(office, short), tags_of(short)) == (200, expected)
    assert tags_of(issuer.make_token(ref="x" * 600)) == tags_of(office.key) == {}

    change_workload(workload=workload, conditions=workload.conditions, tags=None, by=SYSTEM)
    forget_keys_only()
    assert (status(office, token), tags_of(token)) == (200, {})


def test_guesses_from_its_address_keep_no_program_out(
    office: Office, issuer: Issuer, settings: Any
) -> None:
    settings.RATE_FAILED_TOKENS = 2
    build(office, issuer)
    forged = new_key()

    def ask(token: str, address: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        code: int = Client(REMOTE_ADDR=address).get("/api/v1/key", headers=headers).status_code
        return code

    def work() -> None:
        here = f"198.18.{randbelow(256)}.{randbelow(256)}"
        assert ask(issuer.make_token(jti="known"), here) == 200
        wrong = [issuer.make_token(key=forged, jti=str(number)) for number in range(3)]
        assert [ask(each, here) for each in wrong] == [401, 401, 429]
        # What is signed with keys that are known here is looked at all the same.
        assert ask(issuer.make_token(jti="new"), here) == 200
        assert ask(issuer.make_token(jti="old", exp=1), here) == 429

    within_one(MINUTE_S, work)


def test_private_issuers_are_asked_only_where_the_operator_says(
    office: Office, issuer: Issuer, settings: Any
) -> None:
    settings.IDENTITY_PRIVATE_HOSTS = ()
    build(office, issuer)

    assert status(office, issuer.make_token()) == 503
    assert issuer.asked == 0


def test_a_token_is_exchanged_for_a_short_one(office: Office, issuer: Issuer) -> None:
    build(office, issuer)
    made = exchange(subject_token=issuer.make_token(exp=int(time.time()) + 7200))
    said = made.json()
    assert (made.status_code, said["expires_in"], said["token_type"]) == (200, 900, "Bearer")
    assert made["Cache-Control"] == "no-store"
    assert status(office, said["access_token"]) == 200

    (key,) = Client().get("/api/v1/oauth/jwks").json()["keys"]
    claims = jwt.decode(
        said["access_token"],
        jwt.PyJWK(key),
        algorithms=["EdDSA"],
        audience=AUDIENCE,
        issuer=find_issuer_name(),
    )
    assert claims["exp"] - claims["iat"] == 900
    # Nothing lives longer by being exchanged.
    short = exchange(subject_token=issuer.make_token(exp=int(time.time()) + 60)).json()
    again = exchange(subject_token=short["access_token"]).json()
    assert again["expires_in"] <= short["expires_in"] <= 60


def test_a_short_token_ends_with_the_workload_it_was_made_for(
    office: Office, issuer: Issuer
) -> None:
    workload = build(office, issuer)
    made = exchange(subject_token=issuer.make_token()).json()["access_token"]
    tokens = [made, exchange(subject_token=made).json()["access_token"]]

    def statuses() -> list[int]:
        forget_keys_only()
        return [status(office, token) for token in tokens]

    assert statuses() == [200, 200]
    TrustedIssuer.objects.update(enabled=False)
    assert statuses() == [401, 401]
    TrustedIssuer.objects.update(enabled=True)
    assert statuses() == [200, 200]
    change_workload(workload=workload, conditions={"sub": "repo:other/*"}, tags=None, by=SYSTEM)
    assert statuses() == [401, 401]


def test_a_key_is_exchanged_too_and_the_token_ends_with_it(office: Office, issuer: Issuer) -> None:
    made = office.new()
    body = {"subject_token": made["key"], "subject_token_type": f"{TYPES}access_token"}
    token = exchange(**body).json()["access_token"]
    assert status(office, token) == 200

    office.ok("PATCH", f"{KEYS}/{made['data']['hash']}", {"disabled": True})

    forget_keys_only()
    assert status(office, token) == 401


@pytest.mark.parametrize("name", ["scope", "audience", "resource"])
def test_who_asks_for_less_than_a_key_may_do_is_not_given_all_of_it(
    office: Office, name: str
) -> None:
    body = {"subject_token": office.key, "subject_token_type": f"{TYPES}access_token"}

    refused = exchange(**body, **{name: "read"})

    assert (refused.status_code, name in refused.json()["error"]["message"]) == (400, True)
    assert exchange(**body).status_code == 200


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"subject_token": "sk-rt-v1-nobody", "subject_token_type": f"{TYPES}access_token"}, 401),
        ({"subject_token": "eyJ.eyJ.x"}, 401),
        ({"subject_token": "sk-rt-v1-nobody"}, 400),
        ({"subject_token": "eyJ.eyJ.x", "grant_type": "password"}, 400),
        ({}, 400),
    ],
)
def test_nothing_else_is_exchanged(db: None, fields: dict[str, str], expected: int) -> None:
    assert exchange(**fields).status_code == expected
