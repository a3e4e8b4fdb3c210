"""Trying endpoints for decisions: what was found at one is paid for and not asked of the next."""

from gateway.http.errors import GatewayError
from routing.entities.entries import EndpointEntry
from routing.entities.exchange import Terms, WireRequest
from routing.metering.byok import fee_bound_nano
from routing.serving.attempts.attempts import Attempts, Held
from routing.serving.attempts.own_credentials import went_well
from routing.serving.attempts.upstream_call import terms_of
from routing.serving.deciding.books import Books
from routing.serving.deciding.crew import Crew
from routing.serving.request import process
from routing.serving.request.call import Attempt, Call
from routing.serving.request.errors import DeadlinePassed, DecisionsTimedOut
from routing.statistics.observation import observer


class DecisionAttempts(Attempts):
    """See `Attempts`. What is sent is written call by call: an attempt comes with `terms`."""

    terms: Terms

    def __init__(self, call: Call, books: Books) -> None:
        super().__init__(call)
        self._books = books

    def left_open(self, attempt: Attempt, crew: Crew) -> None:
        """Note an attempt after which some question is open. It is an outage of the endpoint only
        where it has answered nothing since."""
        assert crew.failure is not None
        if crew.was_well:
            went_well(attempt)
            if attempt.own is None:
                observer().health_events.record_recovery(attempt.endpoint.pk, process.now())
        crew.failure.outage = crew.is_out
        self.failed(attempt, crew.failure)

    def error(self) -> GatewayError:
        error = super().error()
        return DecisionsTimedOut() if isinstance(error, DeadlinePassed) else error

    def _written(self, endpoint: EndpointEntry) -> WireRequest | None:
        self.terms = terms_of(self._call, endpoint, self._key)
        return None

    def _needed(self, estimated_nano: int, *, is_own: bool) -> Held:
        """What is left to ask, on top of what was used already."""
        shared_nano, own_nano = self._books.charged()
        if is_own:
            own_nano = max(1, own_nano + estimated_nano)
        else:
            shared_nano += estimated_nano
        return Held(shared_nano + fee_bound_nano(own_nano), own_nano)
