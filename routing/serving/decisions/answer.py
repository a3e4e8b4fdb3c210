"""Answering questions about a state: endpoint after endpoint, until none is open.

What one endpoint answered is paid for and not asked of the next. Queries of which nothing was used
cost the gateway what they cost, and the caller nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject, dumps
from routing.decisions.calibration import apply_temperature
from routing.decisions.question import Judgement, TypedQuestion, build_answer
from routing.entities.entries import EndpointEntry
from routing.entities.exchange import Terms, WireRequest
from routing.entities.prices import Prices
from routing.formats.caller import CompleteAnswer, Ending
from routing.metering.byok import fee_bound_nano, fee_nano
from routing.metering.cost import FREE, Cost, Units, compute_cost
from routing.metering.usage import Usage, add_usages
from routing.serving.admission.endpoint_limits import settle_attempt
from routing.serving.attempts.attempts import Attempts, record_success
from routing.serving.attempts.holds import NeededHold
from routing.serving.attempts.upstream_call import build_terms
from routing.serving.decisions.batch import EndpointBatch, QueryUsage
from routing.serving.decisions.plan import DecisionPlan
from routing.serving.request import process
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.errors import DeadlinePassed, DecisionsTimedOut
from routing.serving.request.outcome import CHARGE_MAX_NANO, Outcome, failed_outcome, report_usage
from routing.serving.settlement.booking import FailureRecorder, settle
from routing.serving.settlement.router_metadata import build_wanted_metadata
from routing.statistics.observation import observer, record_attempt

_NATIVE: Final = "native"


_NO_USAGE: Final = Usage(prompt_tokens=0, completion_tokens=0)


class Charged(NamedTuple):
    """The price of what was used: on the gateway's credentials, and on the team's own."""

    shared_nano: int
    own_nano: int


class DecisionCosts:
    """All calls of one request that were answered, by the attempt they belong to."""

    def __init__(self, progress: RequestProgress) -> None:
        self._progress = progress
        self._spent: list[tuple[Attempt, QueryUsage]] = []

    def add(self, attempt: Attempt, spent: Iterable[QueryUsage]) -> None:
        self._spent += [(attempt, each) for each in spent]
        attempt.tokens_used += sum(each.usage.total_tokens for each in spent)
        if attempt.house is not None:
            mine = [pair for pair in self._spent if pair[0] is attempt]
            attempt.house_nano = self._cost(mine).total_nano if mine else None

    def sum_charges(self) -> Charged:
        used = [(attempt, each) for attempt, each in self._spent if each.counts]
        shared = self._cost([pair for pair in used if pair[0].own is None])
        own = self._cost([pair for pair in used if pair[0].own is not None])
        return Charged(shared.total_nano, own.total_nano)

    def outcome(self) -> Outcome:
        """Every question was answered."""
        shared_nano, own_nano = self.sum_charges()
        fee = fee_nano(own_nano)
        return Outcome(
            status=200,
            usage=_sum_of(each.usage for _, each in self._spent if each.counts),
            cost=self._cost(self._spent),
            charged_nano=shared_nano + fee,
            byok_nano=own_nano,
            shared_nano=shared_nano if own_nano else 0,
            finish_reason="stop",
        )

    def failure_outcome(self, error: GatewayError) -> Outcome:
        """Some question was not: nothing is charged, whatever was answered before."""
        if not self._spent:
            return failed_outcome(error)
        usage = _sum_of(each.usage for _, each in self._spent)
        return failed_outcome(error, usage=usage, cost=self._cost(self._spent))

    def _cost(self, spent: Sequence[tuple[Attempt, QueryUsage]]) -> Cost:
        """Rounded once for each price list: a request may be at the prices of several."""
        lists: dict[Prices, list[Usage]] = {}
        for attempt, each in spent:
            prices = attempt.endpoint.prices
            assert prices is not None
            pinned = prices.effective(each.usage.prompt_tokens, self._progress.context.created_at)
            lists.setdefault(pinned, []).append(each.usage)
        costs = []
        for pinned, usages in lists.items():
            usage = _sum_of(usages)
            units = Units(requests=len(usages), web_searches=usage.web_searches)
            costs.append(compute_cost(usage, pinned, units))
        if not costs:
            return FREE
        return Cost(*[min(CHARGE_MAX_NANO, sum(parts)) for parts in zip(*costs, strict=True)])


def _sum_of(usages: Iterable[Usage]) -> Usage:
    return reduce(add_usages, usages, _NO_USAGE)


class DecisionAttempts(Attempts):
    """See `Attempts`. What is sent is written call by call: an attempt comes with `terms`."""

    terms: Terms

    def __init__(self, progress: RequestProgress, costs: DecisionCosts) -> None:
        super().__init__(progress)
        self._costs = costs

    def note_open_questions(self, attempt: Attempt, batch: EndpointBatch) -> None:
        """Note an attempt after which some question is open. It is an outage of the endpoint only
        where it has answered nothing since."""
        assert batch.failure is not None
        if batch.was_well:
            record_success(attempt)
            if attempt.own is None:
                observer().health_events.record_recovery(attempt.endpoint.pk, process.now())
        batch.failure.outage = batch.is_out
        # The next attempt may be at the same endpoint.
        settle_attempt(attempt, attempt.tokens_used)
        self.record_failure(attempt, batch.failure)

    def error(self) -> GatewayError:
        error = super().error()
        return DecisionsTimedOut() if isinstance(error, DeadlinePassed) else error

    def _write_request(self, endpoint: EndpointEntry) -> WireRequest | None:
        self.terms = build_terms(self._progress, endpoint, self._key)
        return None

    def _needed_hold(self, estimated_nano: int, *, is_own: bool) -> NeededHold:
        """What is left to ask, on top of what was used already."""
        shared_nano, own_nano = self._costs.sum_charges()
        if is_own:
            own_nano = max(1, own_nano + estimated_nano)
        else:
            shared_nano += estimated_nano
        return NeededHold(shared_nano + fee_bound_nano(own_nano), own_nano)


def answer_decisions(
    progress: RequestProgress, plan: DecisionPlan, questions: Mapping[str, TypedQuestion]
) -> bytes:
    """The answer's body as JSON, charged and recorded. Raises `GatewayError` (recorded too).

    `questions` are the caller's own: guardrails may have changed what the plan asks.
    """
    costs = DecisionCosts(progress)
    attempts = DecisionAttempts(progress, costs)
    with FailureRecorder(progress, attempts, costs.failure_outcome):
        for attempt in attempts:
            batch = EndpointBatch(progress, plan, attempt, attempts.terms)
            try:
                batch.send(plan.queries(attempt.endpoint))
            finally:
                _add_results(progress, plan, batch, costs)
            if plan.is_done:
                return _finish_answer(progress, plan, questions, costs, attempt)
            attempts.note_open_questions(attempt, batch)
        raise attempts.error()


def _add_results(
    progress: RequestProgress, plan: DecisionPlan, batch: EndpointBatch, costs: DecisionCosts
) -> None:
    """Keep what an attempt found, and count the calls that it was found by."""
    endpoint = batch.attempt.endpoint
    judgements = plan.settle(endpoint, batch.judged)
    for spent in batch.spent:
        spent.counts = any(ref.question in judgements for ref in spent.query.refs)
    costs.add(batch.attempt, batch.spent)
    temperature: float | None = None
    if endpoint.decides != _NATIVE:
        # The model's own, by which probabilities that it gave itself are evened out.
        for model in progress.context.choice.models:
            if model.id == endpoint.model_id:
                temperature = model.decisions_temperature
    for number, judgement in judgements.items():
        plan.ways[number] = endpoint.decides or _NATIVE
        if temperature is not None:
            shares = apply_temperature(judgement.probabilities, temperature)
            judgement = judgement._replace(probabilities=shares)
        plan.judged[number] = judgement


def _finish_answer(
    progress: RequestProgress,
    plan: DecisionPlan,
    questions: Mapping[str, TypedQuestion],
    costs: DecisionCosts,
    attempt: Attempt,
) -> bytes:
    progress.served_by = attempt
    record_success(attempt)
    outcome = costs.outcome()
    # Many short answers at once say nothing of how fast a long one would come.
    record_attempt(attempt, streamed=False)
    judgements = [plan.judged[number] for number in range(len(questions))]
    pairs = zip(questions.items(), judgements, strict=True)
    answers = {name: build_answer(question, each) for (name, question), each in pairs}
    if progress.content is not None:
        progress.content.set_answer({"content": dumps(answers).decode()})
    progress.stages += _list_stages(plan)
    # What the generation keeps: how many questions were answered which way.
    ways = list(plan.ways.values())
    record: JsonObject = {
        "questions": len(plan.names),
        "methods": {way: ways.count(way) for way in dict.fromkeys(ways)},
    }
    if masses := _list_label_masses(plan, sorted(plan.judged)):
        record["label_mass"] = masses
    progress.decisions_record = record

    def write() -> bytes:
        context = progress.context
        ending = Ending(
            finish_reason="stop",
            native_finish=None,
            usage=report_usage(outcome, attempt),
            service_tier=None,
            stop_sequence=None,
            native=None,
            failure=None,
            router_metadata=build_wanted_metadata(progress, selected=attempt),
        )
        identity, message = context.identify_answer(attempt), {"answers": answers}
        answer = CompleteAnswer(identity, context.chat, message, None, None, ending)
        return dumps(context.format.write_answer(answer))

    body = settle(progress, outcome, meanwhile=write)
    assert body is not None
    return body


def _list_stages(plan: DecisionPlan) -> Iterator[JsonObject]:
    """A stage for each way that was not the upstream's own."""
    for way in dict.fromkeys(plan.ways.values()):
        if way == _NATIVE:
            continue
        numbers = [number for number, own in sorted(plan.ways.items()) if own == way]
        data: JsonObject = {"method": way}
        if masses := _list_label_masses(plan, numbers):
            data["label_mass"] = masses
        summary = f"{way}: {len(numbers)} of {len(plan.names)} questions"
        yield {"type": "decisions", "name": way, "summary": summary, "data": data}


def _list_label_masses(plan: DecisionPlan, numbers: list[int]) -> dict[str, float]:
    judgements: dict[int, Judgement] = plan.judged
    masses = {plan.names[number]: judgements[number].label_mass for number in numbers}
    return {name: mass for name, mass in masses.items() if mass is not None}
