"""What is on record of a failure is what its caller was told, whatever had happened before."""

import json
from typing import Any

from django.db import transaction
from django.db.models import F

from tests.conformance.desk import CHAT, HELLO, Desk
from tests.faults import bench
from tests.faults.bench import endpoint, model
from tests.support.server import as_json


def read_error(desk: Desk, request_id: str, *, key: str) -> Any:
    """The error of a request, once it is on record by itself, with its message."""
    path, found = f"/api/v1/generation?id={request_id}", list[Any]()

    def has_message() -> bool:
        response = desk.server.get(path, key=key)
        if response.status_code == 200:
            found[:] = [as_json(response)["data"]]
        return bool(found and "message" in (found[0]["error"] or {}))

    desk.server.wait_until(has_message)
    return found[0]["error"]


def test_a_hold_that_is_refused_after_a_failed_attempt_says_which_limit_it_was(
    desk_of: Any,
) -> None:
    first, second = endpoint("first"), endpoint("second", pricing=bench.DEAR)
    mine = desk_of([model("rises/x", first, second)])
    names = ("--account", "rising", "--workspace", "w", "--credits", "0.1")
    poor = mine.server.manage("seed_keys", *names)
    mine.upstream.script("first", {"status": 503, "json": {"error": {"message": "No room"}}})
    body = {"model": "rises/x", "messages": HELLO, "max_tokens": 900}

    refused = mine.server.post(CHAT, key=poor["api_key"], json=body)

    told = as_json(refused)["error"]
    assert (refused.status_code, told["metadata"]["limit_source"]) == (402, "router_credits")
    request_id = refused.headers["X-Request-Id"]
    error = read_error(mine, request_id, key=poor["api_key"])
    assert (error["code"], error["reason"]) == (402, "credits")
    assert error["message"] == told["message"]


def test_what_the_books_did_not_take_in_time_is_on_record_as_the_error_that_was_told(
    desk_on: Any, orm_of: Any
) -> None:
    desk = desk_on([model("slow/x", endpoint("first"))], LEDGER_TIMEOUT="0.5")
    desk.upstream.script(
        "first", {"events": [{"text": "One"}, {"gate": "books"}, {"finish": "stop"}]}
    )
    from accounts.models import Account

    body = json.dumps({"model": desk.model, "messages": HELLO, "stream": True})
    with desk.server.post(CHAT, key=desk.account.api_key, data=body, stream=True) as answer:
        pieces = answer.iter_content(None)
        read = next(pieces)
        with orm_of(desk.server), transaction.atomic():
            # Whoever writes to this account waits from here on.
            Account.objects.update(total_usage_nano=F("total_usage_nano"))
            desk.upstream.open_gate("books")
            read += b"".join(pieces)

    assert b'"code":503' in read, read
    request_id = answer.headers["X-Request-Id"]
    error = read_error(desk, request_id, key=desk.account.api_key)
    assert (error["code"], error["error_type"]) == (503, "provider_overloaded")
    desk.server.check_books()
