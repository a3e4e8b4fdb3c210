"""The calls that one endpoint is asked, at most eight at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gevent.pool import Pool

from gateway.outbound.errors import OutboundError
from routing.decisions.question import Judgement
from routing.entities.exchange import Terms
from routing.formats.chat.answer import count_text_chars
from routing.metering.usage import Usage
from routing.serving.attempts.upstream_call import send
from routing.serving.deciding.agenda import Agenda, Errand, Place
from routing.serving.deciding.asking import Told, request_of, told
from routing.serving.request import process
from routing.serving.request.call import Attempt, Call, forget_origin
from routing.serving.request.outcome import measured
from routing.upstreams.decisions import as_told, blamed_in
from routing.upstreams.failures import UpstreamFailure, from_door

CALLS_AT_ONCE: Final = 8
# The model is gone there; nothing comes in time.
_ENDING: Final = (404, 524)


@dataclass(slots=True)
class Spent:
    """What one answered call took. `counts` says whether something of it was used."""

    errand: Errand
    usage: Usage
    counts: bool = False


@dataclass(slots=True)
class Crew:
    """One attempt: what its calls found and took, and the first thing that went wrong.

    `was_well` says that some call was answered in full, `is_out` that the endpoint met with an
    outage and that no call was since.
    """

    call: Call
    agenda: Agenda
    attempt: Attempt
    terms: Terms
    judged: dict[Place, Judgement] = field(default_factory=dict)
    spent: list[Spent] = field(default_factory=list)
    failure: UpstreamFailure | None = None
    failures: int = 0
    was_well: bool = False
    is_out: bool = False
    bug: Exception | None = None

    def carry_out(self, errands: Sequence[Errand]) -> None:
        """Make the calls, or as many as are of use. What fails is kept in `failure`."""
        if len(errands) == 1:
            self._one(errands[0])
        else:
            self._several(errands)
        if self.bug is not None:
            raise self._taken_bug()

    def _taken_bug(self) -> Exception:
        """Not to be kept: it will hold the frames that hold this."""
        bug, self.bug = self.bug, None
        assert bug is not None
        return bug

    def _several(self, errands: Sequence[Errand]) -> None:
        pool = Pool(CALLS_AT_ONCE)
        try:
            for errand in errands:
                # Waits while all are busy.
                pool.spawn(self._one, errand)
            pool.join()
        finally:
            pool.kill()

    def _is_over(self) -> bool:
        if self.bug is not None or (self.failure is not None and _ends(self.failure)):
            return True
        return self.failures >= CALLS_AT_ONCE and not self.judged

    def _one(self, errand: Errand) -> None:
        if self._is_over():
            return
        try:
            self._note(errand, self._asked(errand))
        except UpstreamFailure as error:
            self._failed(as_told(error, of_caller=self._is_of_caller(errand, error)))
        except Exception as error:  # noqa: BLE001 - Raised again by who waits.
            # A greenlet would only print it.
            forget_origin(error)
            self.bug = error

    def _is_of_caller(self, errand: Errand, failure: UpstreamFailure) -> bool | None:
        """See `as_told`. Chat models are told of no question that they could blame."""
        if self.attempt.endpoint.decides != "native":
            return None
        blamed = blamed_in(failure, errand.parts)
        return None if blamed is None else errand.is_of_caller(blamed)

    def _asked(self, errand: Errand) -> Told:
        endpoint, chat = self.attempt.endpoint, self.call.chat
        request = request_of(errand, self.agenda, chat, endpoint, self.terms)
        reply = send(self.call, self.attempt, request=request)
        try:
            with reply:
                raw = reply.read_all()
        except OutboundError as error:
            raise from_door(error) from error
        return told(errand, endpoint, raw, reply.headers.get("content-type", ""))

    def _note(self, errand: Errand, said: Told) -> None:
        attempt = self.attempt
        attempt.ended = process.now()
        attempt.first_token = attempt.first_token or attempt.ended
        attempt.upstream_id = attempt.upstream_id or said.answer.upstream_id
        usage = measured(
            self.call,
            attempt,
            said.answer.usage,
            _produced_chars(said),
            prompt_chars=errand.demand.text_bytes,
        )
        self.spent.append(Spent(errand, usage))
        self.judged |= said.judged
        if said.failure is not None:
            self._failed(said.failure)
        else:
            self.was_well, self.is_out = True, False

    def _failed(self, failure: UpstreamFailure) -> None:
        """The first failure is told, unless a later one ends the attempt."""
        forget_origin(failure)
        self.failures += 1
        self.is_out |= failure.outage
        if self.failure is None or (_ends(failure) and not _ends(self.failure)):
            self.failure = failure


def _ends(failure: UpstreamFailure) -> bool:
    """Whether it was not one question that failed: further ones would go the same way."""
    of_endpoint = failure.parked or failure.credential or failure.deadline
    return of_endpoint or failure.told_status in _ENDING or not failure.elsewhere


def _produced_chars(said: Told) -> int:
    """How long the answer was, for upstreams that do not count."""
    native = said.answer.native
    return len(native.raw) if native is not None else count_text_chars(said.answer.message)
