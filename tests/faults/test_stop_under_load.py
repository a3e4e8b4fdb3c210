"""A stop while requests are in flight: each is settled and told before the process goes."""

import threading
from typing import Any

import pytest
import requests

from tests.conformance.desk import HELLO, Desk
from tests.faults import bench
from tests.faults.test_hang_ups import begin

pytestmark = [pytest.mark.both, pytest.mark.thorough]


def test_a_stop_leaves_no_money_held_and_no_stream_untold(desk_on: Any) -> None:
    desk = desk_on([bench.model("plain/first", bench.endpoint("first"))])
    desk.upstream.script("first", {"events": [{"text": "A beginning."}, {"gate": "never"}]})
    stream = begin(desk, model="plain/first")
    stream.head()
    stream.until(b"A beginning.")
    desk.upstream.script("first", {"gate": "never"})
    told: list[Any] = []
    whole = threading.Thread(target=lambda: told.append(_ask(desk)))
    whole.start()
    desk.upstream.wait(2, "received")

    desk.server.stop()

    stream.until(b'"finish_reason":"error"')
    stream.close()
    whole.join(5)
    # Told by the stop, or before it by the upstream's short limit; never nothing.
    assert told in (["503"], ["524"])
    audit = desk.server.run_command("audit_ledger", "--json").json()
    assert (audit["open_holds"], audit["mismatches"]) == (0, [])
    assert len(desk.upstream.requests()) == 2


def _ask(desk: Desk) -> str:
    try:
        answer = desk.server.chat(key=desk.account.api_key, model="plain/first", messages=HELLO)
    except requests.RequestException as error:
        return type(error).__name__
    return str(answer.status_code)
