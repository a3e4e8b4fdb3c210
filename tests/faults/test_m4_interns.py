"""M3 and M4 for interns: the same creation many times at once, and many at once under one limit."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bed import Bed
from tests.support.callers import at_a_time
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.timeout(120), pytest.mark.thorough]
INTERNS = "/api/v1/interns"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, stores: Bed) -> Iterator[GatewayServer]:
    settings = {"INTERNS_MAX_PER_MEMBER": "3", "WEB_CONCURRENCY": "2"}
    with StartGateway(stores, tmp_path_factory.mktemp("many")) as starter:
        yield starter(**settings)


@pytest.fixture
def account(server: GatewayServer) -> SeededAccount:
    return seed_account(server)


def create(server: GatewayServer, account: SeededAccount, key: str, **body: Any) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return server.post(INTERNS, key=account.api_key, json=body, headers=headers)


@pytest.mark.parametrize("key", ["", "once"])
def test_one_creation_fifty_times_at_once_is_one_intern(
    server: GatewayServer, account: SeededAccount, key: str
) -> None:
    answers = at_a_time(16, 50, lambda n: create(server, account, key, name="research"))

    assert Counter(each.status_code for each in answers) == {201: 1, 200: 49}
    assert len({each.json()["id"] for each in answers}) == 1
    listed = server.get(INTERNS, key=account.api_key).json()["data"]
    assert [each["name"] for each in listed] == ["research"]
    other = create(server, account, "once", name="other")
    assert other.status_code == (409 if key else 201)
    if key:
        assert other.json()["error"]["metadata"]["reason"] == "idempotency_key_reused"


def test_a_member_s_limit_holds_from_the_first_request_on(
    server: GatewayServer, account: SeededAccount
) -> None:
    answers = at_a_time(20, 20, lambda n: create(server, account, "", name=f"intern-{n}"))

    assert Counter(each.status_code for each in answers) == {201: 3, 409: 17}
    reasons = {each.json()["error"]["metadata"]["reason"] for each in answers if not each.ok}
    assert reasons == {"intern_limit_reached"}
    assert len(server.get(INTERNS, key=account.api_key).json()["data"]) == 3
