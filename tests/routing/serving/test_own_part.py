"""What a record says of money where a request was partly on a team's own credentials."""

from typing import Any

import orjson
import pytest

from routing.metering.cost import Cost
from routing.metering.usage import Usage
from routing.serving.outcome import Outcome
from routing.serving.records import settle_order
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to
from tests.routing.serving.test_own_credentials import entry

# What the answer cost by the lists, what was charged, the list price of what was on the team's own
# credentials, what of the charge is no fee: then what the record says of cost and fee, if anything.
ROWS: list[tuple[str, bool, int, int, int, int, tuple[int, int] | None]] = [
    ("all shared", False, 100, 100, 0, 0, None),
    ("all own, with a fee", True, 100, 5, 100, 0, None),
    ("all own, without one", True, 100, 0, 100, 0, None),
    ("own and charged nothing for", True, 100, 0, 0, 0, None),
    ("both, the own one last", True, 100, 43, 60, 40, (60, 3)),
    ("both, the own one first", False, 100, 43, 60, 40, (60, 3)),
    ("both, and no fee", False, 100, 40, 60, 40, (60, 0)),
    ("own, some of it of no use", True, 100, 4, 80, 0, (80, 4)),
    ("shared, and the last one free and own", True, 40, 40, 0, 0, (0, 0)),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_record_tells_the_team_s_part(row: Any) -> None:
    _, is_own_last, cost_nano, charged_nano, own_nano, shared_nano, told = row
    call = call_to(endpoint())
    for own in (not is_own_last, is_own_last):
        call.attempts.append(attempt_at(endpoint(), own=entry() if own else None))
    outcome = Outcome(
        status=200,
        usage=Usage(1, 1),
        cost=Cost(cost_nano, 0, 0),
        charged_nano=charged_nano,
        byok_nano=own_nano,
        shared_nano=shared_nano,
    )

    detail = orjson.loads(settle_order(call, outcome).record["detail"])

    said = (detail.get("own_cost_nano"), detail.get("own_fee_nano"))
    assert said == (told or (None, None))
    assert ("byok" in detail) == (is_own_last or own_nano > 0)
