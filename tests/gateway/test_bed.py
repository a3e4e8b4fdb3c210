"""What the fixtures promise the other tests."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from tests.support.gateways import SeededAccount, StartGateway
from tests.support.manage import manage_process
from tests.support.server import GatewayServer, as_json

pytestmark = pytest.mark.both
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]


def test_the_shared_gateway_knows_a_fresh_account_and_its_catalogue(
    gateway: GatewayServer, account: Callable[..., SeededAccount], orm_of: OrmOf
) -> None:
    first, second = account(), account(credits_usd="0.25")
    usual = connection.settings_dict["NAME"]

    answer = as_json(gateway.get("/api/v1/credits", key=second.management_key))

    assert first.account_id != second.account_id
    assert answer["data"]["total_credits"] == 0.25
    assert as_json(gateway.get("/api/v1/models", key=first.api_key))["data"]
    # Models can look into a server's database.
    with orm_of(gateway):
        assert get_user_model().objects.filter(public_id=first.user_id).exists()
    assert connection.settings_dict["NAME"] == usual


def test_commands_end_alike_in_the_host_and_as_processes(start_gateway: StartGateway) -> None:
    server = start_gateway.build()
    in_host = server.run_command("load_catalogue", "/nonexistent.yaml", "--json")
    as_process = manage_process(dict(server.env), "load_catalogue", "/nonexistent.yaml", "--json")
    assert in_host.status == as_process.status == 1
    assert in_host.json() == as_process.json()
