"""CPU of a trusted issuer's token in the place of a key: `python -m tests.load.tokens SECONDS`.

Trusts an issuer of its own for the account of the key LOAD_KEY. Prints a `Tokens` as JSON.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.load.apart import measured_apart, print_measured, timed_us
from tests.load.figures import Interval
from tests.load.stand import Stand


@dataclass(frozen=True)
class Tokens:
    """Microseconds of CPU to know the caller and the tags of a request."""

    token_us: float
    key_us: float


@dataclass(frozen=True)
class Presented:
    """An interval of requests at 64 connections, and right after it both ways to know a caller."""

    governed: Interval
    tokens: Tokens


def measure_tokens(governed: Interval, stand: Stand, seconds: float) -> Presented:
    """The interval with what is measured beside it. Raises `LoadFailed`."""
    more = {"LOAD_KEY": stand.key, "IDENTITY_PRIVATE_HOSTS": "127.0.0.1"}
    return Presented(
        governed, Tokens(**measured_apart(stand.gateway.env | more, "tokens", seconds))
    )


def build_step(credential: str) -> Callable[[], None]:
    """What a chat request does with its credential."""
    from django.test import RequestFactory

    from accounts.authentication import authenticate_inference, find_token_tags

    headers = {"Authorization": f"Bearer {credential}"}
    request = RequestFactory().post("/api/v1/chat/completions", headers=headers)

    def step() -> None:
        authenticate_inference(request)
        find_token_tags(request)

    return step


def measure_both_ways(seconds: float) -> Tokens:
    from accounts.keystring import hash_key
    from accounts.models import ApiKey, TrustedIssuer
    from accounts.services.records import SYSTEM
    from accounts.services.workloads import create_workload
    from tests.support.issuer import Issuer

    key, issuer = ApiKey.objects.get(hash=hash_key(os.environ["LOAD_KEY"])), Issuer()
    trusted = TrustedIssuer.objects.create(
        account=key.account, name=issuer.url, url=issuer.url, audience="gateway"
    )
    create_workload(
        issuer=trusted,
        name="builds",
        conditions={"sub": "repo:acme/*"},
        workspace=key.workspace,
        by=SYSTEM,
    )
    steps = {
        "token_us": build_step(issuer.make_token(exp=int(time.time()) + 3600)),
        "key_us": build_step(os.environ["LOAD_KEY"]),
    }
    for step in steps.values():
        timed_us(step, seconds=seconds / 10)
    found = {name: timed_us(step, seconds=seconds / 2) for name, step in steps.items()}
    issuer.stop()
    return Tokens(**found)


if __name__ == "__main__":
    print_measured(measure_both_ways)
