"""Row 45 of the inference reference's section 12: a session stays with who served it first."""

from collections.abc import Callable

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk

SMALL = "acme/small"
ALPHA, BETA = "small-alpha", "small-beta"
IDLE_S = 1.0
# Alpha is drawn by four of five; so many sessions that none of them is would be odd.
SESSIONS = 60
ONLY_BETA = {"only": ["beta"], "ignore": ["beta/turbo"]}


@pytest.fixture(scope="module")
def forgetful(serve: Callable[..., Callable[[], Desk]]) -> Callable[[], Desk]:
    """Desks on a gateway that keeps an idle session for a second."""
    return serve(ROUTER_STICKY_SECONDS=str(IDLE_S))


@pytest.fixture(scope="module")
def remembering(serve: Callable[..., Callable[[], Desk]]) -> Callable[[], Desk]:
    return serve()


@pytest.fixture
def desk(remembering: Callable[[], Desk], simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    return remembering()


def served_by(desk: Desk, **options: object) -> str:
    """The upstream model of one request."""
    before = len(desk.upstream.requests())
    desk.ok(**options)
    (entry,) = desk.upstream.requests()[before:]
    model: str = entry["body"]["model"]
    return model


def test_a_session_stays_where_it_was_served(desk: Desk) -> None:
    desk.model = SMALL
    for number in range(10):
        session = f"session-{number}"
        first = served_by(desk, session_id=session, provider=ONLY_BETA)
        assert first == BETA

        assert [served_by(desk, session_id=session) for _ in range(3)] == [BETA] * 3

    # Without a session most go to the cheapest.
    assert [served_by(desk) for _ in range(20)].count(ALPHA) > 5


def test_the_header_names_a_session_too_and_streams_are_kept(desk: Desk) -> None:
    desk.model = SMALL
    header = {"x-session-id": "by-header"}
    desk.stream(headers=header, provider=ONLY_BETA)

    assert [served_by(desk, headers=header) for _ in range(3)] == [BETA] * 3


def test_an_idle_session_is_balanced_again(forgetful: Callable[[], Desk]) -> None:
    desk = forgetful()
    desk.upstream.clear()
    sessions = [f"idle-{number}" for number in range(SESSIONS)]
    for session in sessions:
        served_by(desk, session_id=session, provider=ONLY_BETA)
    # Each is asked again once only, for an answer would keep it.
    later = iter(sessions)

    desk.server.wait_until(lambda: served_by(desk, session_id=next(later)) == ALPHA)


def test_each_answer_keeps_it_for_another_while(forgetful: Callable[[], Desk]) -> None:
    """Another session that nobody asks for tells when the time has passed."""
    desk = forgetful()
    desk.upstream.clear()
    served_by(desk, session_id="busy", provider=ONLY_BETA)
    for number in range(SESSIONS):
        served_by(desk, session_id=f"quiet-{number}", provider=ONLY_BETA)
        assert served_by(desk, session_id="busy") == BETA
    quiet = iter(range(SESSIONS))

    def time_has_passed() -> bool:
        assert served_by(desk, session_id="busy") == BETA
        return served_by(desk, session_id=f"quiet-{next(quiet)}") == ALPHA

    desk.server.wait_until(time_has_passed)
    assert served_by(desk, session_id="busy") == BETA


def test_who_fails_is_left_and_who_answers_is_kept(desk: Desk) -> None:
    desk.model = SMALL
    assert served_by(desk, session_id="moving", provider=ONLY_BETA) == BETA
    desk.upstream.script("beta", {"status": 503})

    moved = [entry["body"]["model"] for entry in _requests(desk, session_id="moving")]

    assert moved[0] == BETA
    assert len(moved) == 2
    assert {served_by(desk, session_id="moving") for _ in range(5)} == {moved[1]}


def _requests(desk: Desk, **options: object) -> list[dict[str, dict[str, str]]]:
    before = len(desk.upstream.requests())
    desk.ok(**options)
    return desk.upstream.requests()[before:]
