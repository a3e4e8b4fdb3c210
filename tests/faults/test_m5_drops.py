"""M5: whoever leaves, and whenever, is charged by the rule of the inference reference's 3.8.

A provider that can be cancelled: the prompt and what it had produced. One that cannot: everything,
once it has been read to its end. A request without a stream: everything, whoever waits.
"""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from routing.simulator.testing import RawConnection, SimulatedUpstream
from tests.conformance.desk import TEXT, Desk
from tests.faults import bench
from tests.faults.bench import CHEAP_NANO
from tests.faults.conftest import GatewayWith
from tests.faults.desks import begin, stream_end
from tests.support import callers
from tests.support.callers import at_a_time, seeded_random
from tests.support.gateways import seed_account
from tests.support.ledger import Call, Ledger
from tests.support.promptness import in_time
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]
PIECE = "A piece of text of forty characters or so."
PIECES = 100
USAGE = {"prompt_tokens": 50, "completion_tokens": 1_070, "total_tokens": 1_120}
ALL_NANO = 50 * CHEAP_NANO[0] + 1_070 * CHEAP_NANO[1]
TEXTS: list[Any] = [{"text": PIECE}]
END = stream_end(50, 1_070)
HALF_AN_ANSWER = '{"id":"half","object":"chat.completion","created":1,"model":"good",'
THE_OTHER_HALF = (
    '"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Hi"}}],'
    '"usage":{"prompt_tokens":50,"completion_tokens":1070,"total_tokens":1120}}'
)
LATE = {"gate": "left"}
CLOSED_WITHIN_S = 1.0
HOLD_GONE_WITHIN_S = 5.0


def produced_nano(pieces: int, prompt_chars: int = len(TEXT)) -> int:
    """The prompt and so many pieces, four characters a token."""
    tokens = pieces * len(PIECE) // 4
    return prompt_chars // 4 * CHEAP_NANO[0] + tokens * CHEAP_NANO[1]


@pytest.fixture(scope="module")
def patient(gateway_with: GatewayWith, simulator: SimulatedUpstream) -> Iterator[GatewayServer]:
    """A gateway that waits for a silent upstream far longer than for a caller who has left; only
    `impatient` has a short limit."""
    url = f"{simulator.url}/drained/v1"
    short = bench.provider("impatient", url, supports_cancellation=False, idle_s=0.5)
    models = [*bench.plain_models(), bench.model("plain/impatient", bench.endpoint("impatient"))]
    limits = {"ROUTER_FIRST_BYTE_TIMEOUT": "30", "ROUTER_IDLE_TIMEOUT": "30"}
    server = gateway_with(models, providers=[*bench.personas(simulator), short], **limits)
    yield server
    server.check_books()


@pytest.fixture
def desk(patient: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    return Desk(patient, simulator, seed_account(patient, credits_usd="1000"), "plain/first")


def wait_settled(desk: Desk) -> Call:
    """The one record of the call, its hold gone by then."""
    ledger = Ledger(desk.server.env["DATABASE_URL"])
    desk.server.wait_until(lambda: ledger.open_holds() == 0, within_s=HOLD_GONE_WITHIN_S)
    (call,) = ledger.calls(desk.account.account_id)
    assert (call.entries, call.entries_nano) == (1, call.charge_nano)
    assert ledger.totals(desk.account.account_id)[1:] == (call.charge_nano, 0)
    assert not call.lost
    return call


# When the caller leaves: a number of pieces, 0 being after the headers; None: before the upstream
# answers; ALL: after the last byte.
ALL = -1


def answer_held_at(moment: int | None, *, stream: bool) -> dict[str, Any]:
    """A whole answer or a stream that waits there for the caller to have left."""
    if not stream:
        halves = [HALF_AN_ANSWER, LATE, THE_OTHER_HALF]
        if moment is None:
            halves = [LATE, HALF_AN_ANSWER + THE_OTHER_HALF]
        return {"events": halves, "content_type": "application/json"}
    if moment in (None, ALL):
        return {"events": TEXTS * PIECES + END} | (LATE if moment is None else {})
    return {"events": TEXTS * moment + [LATE] + TEXTS * (PIECES - moment) + END}


@pytest.mark.parametrize(
    ("persona", "stream", "moment", "nano", "cancelled"),
    [
        # Who can be cancelled is paid what it produced.
        ("first", True, None, 0, True),
        ("first", True, 0, produced_nano(0), True),
        ("first", True, 10, produced_nano(10), True),
        ("first", True, ALL, ALL_NANO, False),
        # Who cannot is read to its end.
        ("drained", True, None, ALL_NANO, True),
        ("drained", True, 0, ALL_NANO, True),
        ("drained", True, 10, ALL_NANO, True),
        ("drained", True, ALL, ALL_NANO, False),
        # A whole answer is finished, whoever waits.
        ("first", False, None, ALL_NANO, False),
        ("first", False, 0, ALL_NANO, False),
        ("drained", False, 0, ALL_NANO, False),
    ],
)
def test_who_leaves_pays_by_the_rule(
    desk: Desk, persona: str, stream: bool, moment: int | None, nano: int, cancelled: bool
) -> None:
    desk.upstream.script(persona, answer_held_at(moment, stream=stream))
    wire = begin(desk, model=f"plain/{persona}", stream=stream)
    if moment == ALL:
        wire.read_until(b"data: [DONE]")
    else:
        desk.upstream.wait_gate("left")
        if stream and moment is not None:
            wire.head()
    for _ in range(max(0, moment or 0)):
        wire.read_until(PIECE.encode())

    left_at = leave(desk, wire)

    if stream and persona == "first" and moment != ALL:
        entry = desk.upstream.wait(1, "disconnected")
        assert entry["closed_by"] == "client"
        in_time(entry["connection_closed_at"] - left_at, CLOSED_WITHIN_S)
    elif moment != ALL:
        desk.upstream.open_gate("left")
        assert desk.upstream.wait(1, "ended")["outcome"] == "answered"
    call = wait_settled(desk)
    assert (call.charge_nano, call.cancelled) == (nano, cancelled)
    if nano == ALL_NANO:
        assert (call.tokens_prompt, call.tokens_completion) == (50, 1_070)


def leave(desk: Desk, wire: RawConnection) -> float:
    """Hang up; the moment of it. The gateway has seen it once it answers what came later."""
    left_at = time.monotonic()
    wire.close()
    desk.server.get("/healthz")
    return left_at


def test_who_ends_a_stream_by_a_deadline_of_his_own_pays_for_what_he_read(desk: Desk) -> None:
    desk.upstream.script("first", answer_held_at(10, stream=True))

    answer = desk.post(
        model="plain/first", stream=True, max_tokens=2_000, provider={"deadline_ms": 3_000}
    )

    # Nobody opens the gate.
    assert answer.text.count(PIECE) == 10
    assert '"code":408' in answer.text
    call = wait_settled(desk)
    assert (call.charge_nano, call.cancelled) == (produced_nano(10), True)


def test_a_drained_stream_that_falls_silent_costs_what_it_had_produced(desk: Desk) -> None:
    desk.upstream.script("drained", answer_held_at(10, stream=True))
    wire = begin(desk, model="plain/impatient")
    for _ in range(10):
        wire.read_until(PIECE.encode())

    leave(desk, wire)

    # Nobody opens the gate: the idle limit ends the draining.
    assert desk.upstream.wait(1, "disconnected")["closed_by"] == "client"
    call = wait_settled(desk)
    assert (call.charge_nano, call.cancelled) == (produced_nano(10), True)


# --- At every other moment ------------------------------------------------------------------------


@dataclass
class Drop:
    """One caller who left after so many bytes; `heard` is how many pieces it had got by then."""

    tag: str
    model: str
    stream: bool
    bytes_read: int
    pieces_heard: int = 0
    had_head: bool = False
    left_at: float = 0.0

    @property
    def text(self) -> str:
        return f"{TEXT} {self.tag}"

    def carry_out(self, desk: Desk) -> None:
        wire = callers.begin(
            int(desk.server.env["PORT"]),
            desk.account.api_key,
            model=self.model,
            messages=[{"role": "user", "content": self.text}],
            stream=self.stream,
            max_tokens=1000,
            user=self.tag,
        )
        try:
            while len(wire.received) < self.bytes_read and wire.more():
                pass
            self.pieces_heard = wire.received.count(PIECE.encode())
            self.had_head = b"\r\n\r\n" in wire.received
        finally:
            self.left_at = time.monotonic()
            wire.close()


@pytest.fixture
def dropping(desk: Desk) -> Iterator[Desk]:
    """A desk whose upstreams take some 50 ms for a stream."""
    simulator = desk.upstream
    pieces = [*TEXTS * 2, {"pause_s": 0.001}] * (PIECES // 2)
    for persona in ("first", "drained"):
        simulator.script(persona, {"events": pieces + END}, repeat=True)
    whole = {"text": "Hi", "usage": USAGE, "delay_s": 0.02}
    simulator.script("second", whole, repeat=True)
    yield desk
    simulator.clear()


@pytest.mark.parametrize(
    "drops", [30, pytest.param(500, marks=[pytest.mark.nightly, pytest.mark.timeout(300)])]
)
def test_every_one_of_many_drops_is_charged_by_the_rule(dropping: Desk, drops: int) -> None:
    chance = seeded_random()
    leavers = [_drop(number, chance) for number in range(drops)]

    at_a_time(16, drops, lambda number: leavers[number].carry_out(dropping))

    server, upstream = dropping.server, dropping.upstream
    ledger = Ledger(server.env["DATABASE_URL"])
    mine = dropping.account.account_id
    # Even who leaves at once has a record; once all are written, every upstream has ended.
    server.wait_until(lambda: len(ledger.calls(mine)) == drops, within_s=30)
    assert ledger.open_holds() == 0
    seen = {e["body"]["messages"][0]["content"]: e for e in upstream.requests()}
    found = ledger.calls(mine)
    charged = {call.user: call for call in found}
    for caller in leavers:
        _check_drop(caller, charged[caller.tag], seen.get(caller.text))
    assert ledger.totals(mine)[1:] == (sum(c.charge_nano for c in found), 0)
    cancelled = [call.charge_nano for call in found if call.cancelled]
    assert len(set(cancelled)) >= 5, "the drops came at many moments"


def _drop(number: int, chance: random.Random) -> Drop:
    model = chance.choice(["plain/first"] * 5 + ["plain/drained"] * 4 + ["plain/second"])
    # 28 kB are a whole stream.
    bytes_read = chance.choice([0, 600, *[chance.randrange(30_000)] * 3])
    return Drop(f"drop-{number}", model, model != "plain/second", bytes_read)


def _check_drop(caller: Drop, call: Call, seen: dict[str, Any] | None) -> None:
    assert not call.lost, (caller, call)
    assert (call.entries, call.entries_nano) == (1, call.charge_nano), (caller, call)
    assert call.charge_nano in _allowed_nano(caller, call, seen), (caller, call, seen)
    if seen is not None:
        _check_let_go(caller, call, seen)


def _allowed_nano(caller: Drop, call: Call, seen: dict[str, Any] | None) -> list[int]:
    """What the rule allows; only what the upstream had sent on but we cannot see is left open."""
    if seen is None:
        # It had left before anything was sent for it.
        return [0]
    if not call.cancelled or caller.model != "plain/first":
        return [ALL_NANO]
    # The usage came with the end, if that had been read.
    end_was_sent = seen["outcome"] == "answered"
    pieces = range(caller.pieces_heard, PIECES + 1)
    allowed = [produced_nano(n, len(caller.text)) for n in pieces] + [ALL_NANO] * end_was_sent
    return allowed if caller.had_head else [0, *allowed]


def _check_let_go(caller: Drop, call: Call, seen: dict[str, Any]) -> None:
    """The upstream was let go, or read out, in time; and the books followed within seconds."""
    if seen["outcome"] != "answered":
        assert caller.model == "plain/first", (caller, seen)
        in_time(seen["ended_at"] - caller.left_at, CLOSED_WITHIN_S, (caller, seen))
    assert call.settled_at is not None
    settled_s = call.settled_at.timestamp() - time.time() + time.monotonic()
    in_time(settled_s - seen["ended_at"], HOLD_GONE_WITHIN_S, (caller, call, seen))
