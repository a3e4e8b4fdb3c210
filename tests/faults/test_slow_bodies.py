"""A caller who sends slowly gets a plain answer, the end of the connection, and nobody's place."""

import json
from contextlib import closing

import pytest

from routing.simulator.testing import Wire
from tests.conformance.desk import HELLO
from tests.support.gateways import StartGateway, seed_account

pytestmark = pytest.mark.thorough

PATH = "/api/v1/chat/completions"


@pytest.mark.parametrize("framing", ["Content-Length: 5000", "Transfer-Encoding: chunked"])
def test_a_body_that_stops_coming_is_refused_and_holds_no_place(
    start_gateway: StartGateway, framing: str
) -> None:
    server = start_gateway(ROUTER_BODY_TIMEOUT="1", ROUTER_MAX_CONCURRENCY="1")
    key = seed_account(server).api_key
    head = f"POST {PATH} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {key}\r\n{framing}\r\n"

    with closing(Wire(int(server.env["PORT"]))) as wire:
        wire.send(f"{head}\r\n5\r\n{{".encode())
        other = server.chat(key=key, model="no/such", messages=HELLO)
        status, headers = wire.head()
        error = json.loads(wire.body(headers))["error"]

        assert other.status_code in {400, 404}
        assert (status, error["message"]) == (400, "The request body took too long")
        assert wire.to_end() == b""
