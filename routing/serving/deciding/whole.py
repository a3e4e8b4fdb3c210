"""Answering questions about a state: endpoint after endpoint, until none is open."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.http.jsonio import dumps
from routing.decisions.calibration import calibrated
from routing.decisions.question import Judgement, TypedQuestion, build_answer
from routing.formats.caller import CompleteAnswer, Ending
from routing.history.content_writer import wait_until_stored
from routing.serving.attempts.own_credentials import went_well
from routing.serving.deciding.agenda import Agenda
from routing.serving.deciding.attempts import DecisionAttempts
from routing.serving.deciding.books import Books
from routing.serving.deciding.crew import Crew
from routing.serving.request.call import Attempt, Call
from routing.serving.request.outcome import report_of
from routing.serving.settlement.booking import Accounted, book, wait_for
from routing.serving.settlement.metadata import wished_metadata
from routing.statistics.observation import record_attempt

_NATIVE: Final = "native"


def decided_answer(call: Call, agenda: Agenda, questions: Mapping[str, TypedQuestion]) -> bytes:
    """The answer's body as JSON, charged and recorded. Raises `GatewayError` (recorded too).

    `questions` are the caller's own: guardrails may have changed what the agenda asks.
    """
    books = Books(call)
    attempts = DecisionAttempts(call, books)
    try:
        with Accounted(call, attempts, books.owed):
            for attempt in attempts:
                crew = Crew(call, agenda, attempt, attempts.terms)
                try:
                    crew.carry_out(agenda.errands(attempt.endpoint))
                finally:
                    _take(call, agenda, crew, books)
                if agenda.is_done:
                    return _answered(call, agenda, questions, books, attempt)
                attempts.left_open(attempt, crew)
            raise attempts.error()
    finally:
        wait_until_stored(call.content)


def _take(call: Call, agenda: Agenda, crew: Crew, books: Books) -> None:
    """Keep what an attempt found, and count the calls that it was found by."""
    endpoint = crew.attempt.endpoint
    found = agenda.settle(endpoint, crew.judged)
    for spent in crew.spent:
        spent.counts = any(place.question in found for place in spent.errand.places)
    books.add(crew.attempt, crew.spent)
    temperature = _temperature(call, crew.attempt)
    for number, judged in found.items():
        agenda.ways[number] = endpoint.decides or _NATIVE
        if temperature is not None:
            shares = calibrated(judged.probabilities, temperature)
            judged = judged._replace(probabilities=shares)
        agenda.judged[number] = judged


def _temperature(call: Call, attempt: Attempt) -> float | None:
    """The model's own, by which probabilities that it gave itself are evened out."""
    endpoint = attempt.endpoint
    if endpoint.decides == _NATIVE:
        return None
    known = {model.id: model.decisions_temperature for model in call.choice.models}
    return known.get(endpoint.model_id)


def _answered(
    call: Call,
    agenda: Agenda,
    questions: Mapping[str, TypedQuestion],
    books: Books,
    attempt: Attempt,
) -> bytes:
    call.served_by = attempt
    went_well(attempt)
    outcome = books.outcome()
    # Many short answers at once say nothing of how fast a long one would come.
    record_attempt(attempt, streamed=False)
    judged = [agenda.judged[number] for number in range(len(questions))]
    pairs = zip(questions.items(), judged, strict=True)
    answers = {name: build_answer(question, each) for (name, question), each in pairs}
    if call.content is not None:
        call.content.set_answer({"content": dumps(answers).decode()})
    call.stages += _stages(agenda)
    call.decided = _record(agenda)
    ticket = book(call, outcome)
    try:
        # Written while the database works; it leaves once its charge is in the books.
        return dumps(_body(call, attempt, answers, report_of(outcome, attempt)))
    finally:
        wait_for(ticket)


def _body(
    call: Call, attempt: Attempt, answers: dict[str, Any], usage: dict[str, Any]
) -> dict[str, Any]:
    ending = Ending(
        finish_reason="stop",
        native_finish=None,
        usage=usage,
        service_tier=None,
        stop_sequence=None,
        native=None,
        failure=None,
        router_metadata=wished_metadata(call, selected=attempt),
    )
    message = {"answers": answers}
    return call.format.write_answer(
        CompleteAnswer(call.served(attempt), call.chat, message, None, None, ending)
    )


def _stages(agenda: Agenda) -> Iterator[dict[str, Any]]:
    """A stage for each way that was not the upstream's own."""
    for way in dict.fromkeys(agenda.ways.values()):
        if way == _NATIVE:
            continue
        numbers = [number for number, own in sorted(agenda.ways.items()) if own == way]
        data: dict[str, Any] = {"method": way}
        if masses := _masses(agenda, numbers):
            data["label_mass"] = masses
        summary = f"{way}: {len(numbers)} of {len(agenda.names)} questions"
        yield {"type": "decisions", "name": way, "summary": summary, "data": data}


def _record(agenda: Agenda) -> dict[str, Any]:
    """What the generation keeps: how many questions were answered which way."""
    ways = list(agenda.ways.values())
    record: dict[str, Any] = {
        "questions": len(agenda.names),
        "methods": {way: ways.count(way) for way in dict.fromkeys(ways)},
    }
    if masses := _masses(agenda, sorted(agenda.judged)):
        record["label_mass"] = masses
    return record


def _masses(agenda: Agenda, numbers: list[int]) -> dict[str, float]:
    judged: dict[int, Judgement] = agenda.judged
    found = {agenda.names[number]: judged[number].label_mass for number in numbers}
    return {name: mass for name, mass in found.items() if mass is not None}
