"""S1: a key is shown once, kept as a hash, and dies within a second in every process of every
gateway on the same database. S2: keys that are almost right open nothing."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import pytest
import requests
from django.conf import settings
from django.db import OperationalError
from django.test import Client, RequestFactory

from accounts import authentication
from accounts.authentication import KeyCache, authenticate_counted, forget_keys
from accounts.models import ApiKey
from accounts.services.keys import create_key, rotate_key
from accounts.services.organization import open_account
from gateway.http.errors import Unauthenticated
from routing.simulator.testing import SimulatedUpstream
from tests.accounts.dump import database_text
from tests.support.bed import Bed
from tests.support.callers import seeded_random
from tests.support.catalogue import rewritten
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]
Orm = Callable[[GatewayServer], AbstractContextManager[None]]
DEAD_AFTER_S = 1.0
# Watched longer than that, or nothing would be seen of one who is late.
WATCHED_S = 1.6
CHAT = {"model": "acme/solo", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5}


def status_of(server: GatewayServer, string: str) -> int:
    # A connection of its own each time, so that every worker gets its share.
    return server.get("/api/v1/key", key=string).status_code


@dataclass
class Two:
    """Two gateways on one database, one of them of two processes, and one's management key."""

    here: GatewayServer
    there: GatewayServer
    owner: SeededAccount

    def manage(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """What the one answers to a change, which must be good."""
        key = self.owner.management_key
        answer = self.here.request(method, f"/api/v1{path}", key=key, json=body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def new_key(self, **body: Any) -> Any:
        return self.manage("POST", "/keys", {"name": "k"} | body)


@pytest.fixture(scope="module")
def two(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Two]:
    with StartGateway(stores, tmp_path_factory.mktemp("two")) as starter:
        second = {"WEB_CONCURRENCY": "2"}
        here, there = starter.two_with_catalogue(rewritten(simulator.url), second=second)
        yield Two(here, there, seed_account(here, credits_usd="100"))


@dataclass
class Watch:
    """Callers with a key that never stop asking; when the last one that was let in began."""

    stopped: threading.Event = field(default_factory=threading.Event)
    last_let_in: float = 0.0
    asked: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, ask: Callable[[], requests.Response]) -> None:
        while not self.stopped.is_set():
            began_at = time.monotonic()
            status = ask().status_code
            assert status in (200, 401), status
            with self.lock:
                self.asked += 1
                if status == 200:
                    self.last_let_in = max(self.last_let_in, began_at)


@contextmanager
def watch_key(two: Two, key: str) -> Iterator[Watch]:
    """Both gateways are asked all the time, for what costs money too."""
    watch = Watch()
    asks: list[Callable[[], requests.Response]] = [
        lambda: two.there.get("/api/v1/key", key=key),
        lambda: two.there.chat(key=key, **CHAT),
        lambda: two.here.get("/api/v1/key", key=key),
        lambda: two.here.chat(key=key, **CHAT),
    ]
    threads = [threading.Thread(target=watch.run, args=(ask,)) for ask in asks]
    for thread in threads:
        thread.start()
    try:
        yield watch
    finally:
        watch.stopped.set()
        for thread in threads:
            thread.join()


def delete_key(two: Two, orm_of: Orm, made: Any) -> None:
    two.manage("DELETE", f"/keys/{made['data']['hash']}", {})


def rotated_by_an_operator(two: Two, orm_of: Orm, made: Any) -> None:
    with orm_of(two.here):
        rotate_key(keys=ApiKey.objects.filter(hash=made["data"]["hash"]))


def left_without_a_workspace(two: Two, orm_of: Orm, made: Any) -> None:
    where = made["data"]["workspace_id"]
    for key in two.manage("GET", f"/keys?workspace_id={where}", {})["data"]:
        two.manage("DELETE", f"/keys/{key['hash']}", {})
    two.manage("DELETE", f"/workspaces/{where}", {})


@pytest.mark.parametrize("revoked", [delete_key, rotated_by_an_operator, left_without_a_workspace])
def test_no_request_is_let_in_a_second_later(
    two: Two, orm_of: Orm, revoked: Callable[[Two, Orm, Any], None]
) -> None:
    body = {"name": "W", "slug": revoked.__name__.replace("_", "-")}
    workspace = two.manage("POST", "/workspaces", body)["data"]["id"]
    made = two.new_key(workspace_id=workspace)
    with watch_key(two, made["key"]) as watch:
        two.here.wait_until(lambda: watch.asked > 20)
        assert watch.last_let_in
        revoked(two, orm_of, made)
        revoked_at = time.monotonic()
        two.here.wait_until(lambda: time.monotonic() > revoked_at + WATCHED_S)

    assert watch.last_let_in - revoked_at < DEAD_AFTER_S
    for server in (two.here, two.there):
        assert status_of(server, made["key"]) == 401
        assert server.chat(key=made["key"], **CHAT).status_code == 401
    with orm_of(two.here):
        assert made["key"][15:-6] not in database_text() + two.here.log()


@pytest.mark.django_db
def test_a_database_that_fails_is_503_and_never_401(monkeypatch: pytest.MonkeyPatch) -> None:
    account = open_account(name="someone")
    _, string = create_key(account=account, name="k", workspace=account.workspaces.get())
    headers = {"Authorization": f"Bearer {string}"}

    def fail_lookup(_: str) -> None:
        raise OperationalError("the connection is closed")

    broken = KeyCache(fail_lookup, age_max_s=0.8)
    whole = authentication._keys
    for path in ("/api/v1/key", "/api/v1/models"):
        monkeypatch.setattr(authentication, "_keys", broken)
        refused = Client().get(path, headers=headers)
        assert (refused.status_code, refused["Retry-After"]) == (503, "1")
        assert refused.json()["error"]["metadata"]["error_type"] == "provider_overloaded"
        monkeypatch.setattr(authentication, "_keys", whole)
        authentication.forget_keys()
        assert Client().get(path, headers=headers).status_code == 200


# --- S2: near misses ------------------------------------------------------------------------------

HEX = "0123456789abcdef"


@pytest.fixture
def key(db: None) -> str:
    account = open_account(name="someone")
    forget_keys()
    return create_key(account=account, name="k", workspace=account.workspaces.get())[1]


def add_checksum(head: str) -> str:
    """A key with this head whose checksum fits."""
    return f"{head}{crc32(head.encode()):08x}"


def near_misses(key: str, count: int) -> list[str]:
    """Keys that share ever longer beginnings with `key`, half of them with a good checksum."""
    random = seeded_random()
    prefix = len(settings.API_KEY_PREFIX)
    misses: list[str] = []
    head = key[:-8]
    while len(misses) < count:
        at = random.randrange(prefix, len(head))
        digit = random.choice(HEX)
        near = head[:at] + digit + head[at + 1 :]
        if random.random() < 0.5:
            near = near[: at + 1] + "".join(random.choices(HEX, k=len(head) - at - 1))
        miss = add_checksum(near) if random.random() < 0.5 else near + key[-8:]
        if miss != key:
            misses.append(miss)
    return misses


def let_in(string: str) -> bool:
    request = RequestFactory().get("/api/v1/key", headers={"Authorization": f"Bearer {string}"})
    try:
        authenticate_counted(request)
    except Unauthenticated:
        return False
    return True


@pytest.mark.parametrize(
    "count", [500, pytest.param(100_000, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])]
)
def test_no_near_miss_is_let_in(key: str, count: int) -> None:
    assert let_in(key)
    assert not any(let_in(miss) for miss in near_misses(key, count))
    # Odd spellings of the right key are other keys.
    for spelling in (
        key.upper(),
        f"{key}\x00",
        key[:-1],
        f"{key}0",
        f"{key} {key}",
        f"\u200b{key}",
    ):
        assert not let_in(spelling)
    forget_keys()
    assert let_in(key)
