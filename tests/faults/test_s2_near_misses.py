"""S2: keys that are almost right open nothing, and their refusal tells nothing by its time."""

import secrets
import statistics
import time
from collections.abc import Callable
from zlib import crc32

import pytest
from django.conf import settings
from django.test import RequestFactory

from accounts import authentication
from accounts.authentication import forget_keys, required_caller
from accounts.keystring import looks_real, new_key
from accounts.services.accounts import open_account
from accounts.services.keys import create_key
from gateway.http.errors import Unauthenticated
from tests.support.callers import seeded

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.thorough]
HEX = "0123456789abcdef"
# Rounds of a look-up that finds its key and one that does not, in turn.
TURNS = 400
# A row that was found is also read, a tenth of the whole on SQLite. It tells a guesser of 224 bits
# nothing; a comparison that ends with the first wrong digit would not show here either way, for
# only hashes are compared.
MEDIANS_APART = 0.3


@pytest.fixture
def key() -> str:
    account = open_account(name="someone")
    forget_keys()
    return create_key(account=account, name="k", workspace=account.workspaces.get())[1]


def checked(head: str) -> str:
    """A key with this head whose checksum fits."""
    return f"{head}{crc32(head.encode()):08x}"


def near_misses(key: str, count: int) -> list[str]:
    """Keys that share ever longer beginnings with `key`, half of them with a good checksum."""
    random = seeded()
    prefix = len(settings.API_KEY_PREFIX)
    misses: list[str] = []
    head = key[:-8]
    while len(misses) < count:
        at = random.randrange(prefix, len(head))
        digit = random.choice(HEX)
        near = head[:at] + digit + head[at + 1 :]
        if random.random() < 0.5:
            near = near[: at + 1] + "".join(random.choices(HEX, k=len(head) - at - 1))
        miss = checked(near) if random.random() < 0.5 else near + key[-8:]
        if miss != key:
            misses.append(miss)
    return misses


def let_in(string: str) -> bool:
    request = RequestFactory().get("/api/v1/key", headers={"Authorization": f"Bearer {string}"})
    try:
        required_caller(request)
    except Unauthenticated:
        return False
    return True


@pytest.mark.parametrize(
    "count", [1_000, pytest.param(100_000, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])]
)
def test_no_near_miss_is_let_in(key: str, count: int) -> None:
    assert let_in(key)
    assert not any(let_in(miss) for miss in near_misses(key, count))
    # Odd spellings of the right key are other keys.
    for spelling in (
        key.upper(),
        key + "\x00",
        key[:-1],
        key + "0",
        f"{key} {key}",
        "\u200b" + key,
    ):
        assert not let_in(spelling)
    forget_keys()
    assert let_in(key)


@pytest.mark.parametrize("count", [10_000, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_a_mistyped_key_costs_no_query(
    key: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(authentication._keys, "_read", asked.append)
    typos = [key[:at] + digit + key[at + 1 :] for at in range(len(key)) for digit in HEX]
    typos = [typo for typo in typos if typo != key]
    random = seeded()
    for _ in range(count // len(typos) + 1):
        for typo in typos:
            assert not looks_real(typo, settings.API_KEY_PREFIX)
    for typo in random.sample(typos, 200):
        assert not let_in(typo)
    assert asked == []


def test_finding_a_key_takes_as_long_as_not_finding_it(key: str) -> None:
    account = open_account(name="timed")
    found = create_key(account=account, name="k", workspace=account.workspaces.get())[1]
    hits: list[float] = []
    misses: list[float] = []
    for _ in range(TURNS):
        # The same statement by the same index in both cases: only the row differs.
        misses.append(_took_s(lambda: let_in(checked(found[:-12] + secrets.token_hex(2)))))
        hits.append(_took_s(lambda: let_in(found)))
    apart = abs(statistics.median(hits) / statistics.median(misses) - 1)
    if apart > MEDIANS_APART:
        pytest.fail(f"medians {apart:.1%} apart")


def _took_s(work: Callable[[], object]) -> float:
    forget_keys()
    began_at = time.perf_counter()
    work()
    return time.perf_counter() - began_at


def test_new_keys_share_nothing_but_the_prefix() -> None:
    made = {new_key(settings.API_KEY_PREFIX) for _ in range(1000)}
    assert len({string[len(settings.API_KEY_PREFIX) :][:16] for string in made}) == 1000
