"""calibrate_decisions: how far is a model to be trusted, and by which temperature would it be?"""

import random
from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from django.core.management.base import CommandParser
from django.http import HttpRequest

from accounts.caller import Caller, read_caller
from gateway.commands import JsonCommand, Refused
from gateway.http.errors import GatewayError, MalformedJson
from gateway.http.jsonio import JsonObject, loads
from routing.catalogue.models import Model
from routing.catalogue.snapshot import catalogue
from routing.decisions.calibration import (
    CalibrationReport,
    Example,
    apply_temperature,
    build_report,
    draw_reliability,
    fit_temperature,
)
from routing.decisions.question import TypedQuestion
from routing.entities.entries import ModelEntry
from routing.formats.chat.request import ChatInvalid
from routing.formats.decisions import parse_decisions, read_questions
from routing.history.content_writer import content_writer
from routing.history.models import DecisionCalibration
from routing.ledger.writer import ledger
from routing.views.inference import DecisionsViewSet


class LabelledLine(NamedTuple):
    """One line of a file: a request for decisions, and of each question the right label's place."""

    number: int
    body: JsonObject
    right: Mapping[str, int]


def read_labelled_lines(file: Path, *, model: str) -> list[LabelledLine]:
    """The lines of a JSONL file: `state`, `questions` and, by their names, `answers`.

    An answer is true or false for a noul, a label for a choice, a level's number for a score.
    Questions without one are left out, and so are empty lines. Raises `Refused` naming the line.
    """
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise Refused(f"{file} cannot be read: {error.strerror}") from error
    labelled = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            labelled.append(_read_line(number, line, model))
        except MalformedJson as error:
            raise Refused(f"line {number} is no JSON") from error
        except (ChatInvalid, ValueError) as error:
            raise Refused(f"line {number}: {error}") from error
    return labelled


def _read_line(number: int, line: bytes, model: str) -> LabelledLine:
    """Raises ValueError with the reason, `ChatInvalid` and `MalformedJson`."""
    fields = loads(line)
    if not isinstance(fields, dict) or not isinstance(fields.get("answers"), dict):
        raise ValueError("an object with `state`, `questions` and `answers` is expected")
    body: JsonObject = {
        "model": model,
        "state": fields.get("state"),
        "questions": fields.get("questions"),
    }
    parse_decisions(body, session_header=None)
    questions = read_questions(body)
    right: dict[str, int] = {}
    for name, answer in fields["answers"].items():
        question = questions.get(name)
        if question is None:
            raise ValueError(f"there is no question {name!r}")
        label = _find_label(question, answer)
        if label not in question.labels:
            raise ValueError(f"{answer!r} is no answer to {name!r}")
        right[name] = question.labels.index(label)
    with_answers = {name: body["questions"][name] for name in right}
    return LabelledLine(number, body | {"questions": with_answers}, right)


def _find_label(question: TypedQuestion, answer: object) -> str | None:
    """None for what is of the wrong type."""
    if question.kind == "noul":
        return question.labels[0 if answer else 1] if isinstance(answer, bool) else None
    if question.kind == "score":
        return str(answer) if type(answer) is int else None
    return answer if isinstance(answer, str) else None


# A half with fewer questions shows nothing.
_HALF_MIN: Final = 5
_PROGRESS_LINES: Final = 50
_STOP_S: Final = 5.0


class _NamedExample(NamedTuple):
    """What was answered to the question of that name."""

    question: str
    example: Example


class _Answers(NamedTuple):
    """Examples of each line that was answered, and why the others were not."""

    examples: list[list[_NamedExample]]
    failed: dict[int, str]


class _Reports(NamedTuple):
    """All answers without and with the temperature, and with it those to each question."""

    before: CalibrationReport
    after: CalibrationReport
    questions: dict[str, JsonObject]

    @classmethod
    def build(cls, told_on: Sequence[_NamedExample], temperature: float) -> "_Reports":
        by_name: dict[str, list[Example]] = {}
        for each in told_on:
            by_name.setdefault(each.question, []).append(each.example)
        examples = [each.example for each in told_on]
        questions = {
            name: {"answers": len(own), **_serialize_report(build_report(own, temperature))}
            for name, own in by_name.items()
        }
        return cls(build_report(examples), build_report(examples, temperature), questions)


class Command(JsonCommand):
    help = (
        "Ask a model labelled questions through the gateway, as a caller would, and compare how "
        "sure it is with how often it is right. The file has a JSON object a line: state, "
        "questions, and answers by the questions' names (true or false, a label, a level's "
        "number). A temperature is fitted on one half of the lines and reported on the other; "
        "--apply stores it with the model. The questions are charged to the given key; what was "
        "measured is shown to its account in the console."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="labelled questions, JSON lines")
        parser.add_argument("--model", required=True, help="a model's id")
        parser.add_argument("--key-hash", required=True, help="the API key that asks and pays")
        parser.add_argument("--apply", action="store_true", help="store the temperature")
        parser.add_argument(
            "--diagram",
            type=_parse_svg_path,
            help="the reliability diagram, an SVG (default: beside FILE)",
        )
        parser.add_argument("--seed", type=int, default=0, help="fixes which line is in which half")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        model = _find_model(options["model"])
        caller = _find_caller(options["key_hash"])
        lines = read_labelled_lines(options["file"], model=model.id)
        random.Random(options["seed"]).shuffle(lines)  # noqa: S311 - Halves a file.
        answers = self._ask_questions(lines, model, caller)
        fitted_on, told_on = _split_in_halves(answers.examples)
        temperature = fit_temperature([each.example for each in fitted_on])
        reports = _Reports.build(told_on, temperature)
        before, after = reports.before, reports.after
        diagram = options["diagram"] or options["file"].with_suffix(".svg")
        diagram.write_text(draw_reliability(model.id, before, after), encoding="utf-8")
        if options["apply"]:
            row = Model.objects.get(slug=model.id)
            row.decisions_temperature = temperature
            row.save(update_fields=["decisions_temperature"])
        DecisionCalibration.objects.create(
            account_id=caller.account_id,
            model=model.id,
            measured_at=datetime.now(UTC),
            temperature=temperature,
            is_applied=options["apply"],
            answers=len(told_on),
            before=_serialize_report(before),
            after=_serialize_report(after),
            questions=reports.questions,
        )
        result = {
            "model": model.id,
            "fitted_on": len(fitted_on),
            "told_on": len(told_on),
            "failed": {str(number): why for number, why in sorted(answers.failed.items())},
            "temperature": temperature,
            "stored_temperature": temperature if options["apply"] else model.decisions_temperature,
            "before": _serialize_report(before),
            "after": _serialize_report(after),
            "diagram": str(diagram),
            "applied": options["apply"],
        }
        return result, 0

    def lines(self, result: JsonObject) -> Iterable[str]:
        told_on = result["told_on"]
        yield f"temperature {result['temperature']:g}, fitted on {result['fitted_on']} questions"
        for name in ("before", "after"):
            each = result[name]
            yield (
                f"{name}: {each['accuracy']:.1%} of {told_on} others right, "
                f"calibration error {each['calibration_error']:.4f}, loss {each['loss']:.4f}"
            )
        for number, why in result["failed"].items():
            yield f"line {number} was not answered: {why}"
        yield f"diagram: {result['diagram']}"
        if result["applied"]:
            yield f"stored with {result['model']}; running gateways take it up within two seconds"
        else:
            yield "not stored; --apply stores it"

    def _ask_questions(
        self, lines: Sequence[LabelledLine], model: ModelEntry, caller: Caller
    ) -> _Answers:
        answers = _Answers([], {})
        # The catalogue is not followed meanwhile: the temperature to be undone stays the same.
        ledger.start()
        try:
            for count, line in enumerate(lines, 1):
                try:
                    answers.examples.append(_ask_line(line, model, caller))
                except GatewayError as error:
                    if error.status < 500:
                        raise Refused(f"line {line.number}: {error.text}") from error
                    answers.failed[line.number] = error.text
                if count % _PROGRESS_LINES == 0:
                    self.stderr.write(f"{count} of {len(lines)} lines")
        finally:
            ledger.stop(_STOP_S)
            content_writer.stop(_STOP_S)
        return answers


def _parse_svg_path(text: str) -> Path:
    if not text.endswith(".svg"):
        raise ArgumentTypeError("the diagram is an SVG: name it so")
    return Path(text)


def _find_model(name: str) -> ModelEntry:
    """The model, where it gives probabilities that the gateway reads. Raises `Refused`."""
    catalogue.refresh_if_changed()
    model = catalogue.current().models.get(name)
    if model is None:
        raise Refused(f"There is no model {name}")
    if not any(each.decides in ("logprobs", "schema") for each in model.endpoints):
        raise Refused(f"{name} answers decisions natively, or not at all: nothing is applied there")
    return model


def _find_caller(key_hash: str) -> Caller:
    """Raises `Refused` for a key that may not ask."""
    caller = read_caller(key_hash)
    if caller is None:
        raise Refused("There is no key with that hash")
    if caller.management or caller.creator_left or not caller.is_usable(datetime.now(UTC)):
        raise Refused("That key cannot be used for inference")
    return caller


def _ask_line(line: LabelledLine, model: ModelEntry, caller: Caller) -> list[_NamedExample]:
    """What was answered, without the temperature that is stored. Raises `GatewayError`."""
    # No temperature is applied to the answers of native endpoints.
    native = [each.provider.slug for each in model.endpoints if each.decides == "native"]
    body = line.body | {"provider": {"ignore": list(dict.fromkeys(native))} if native else {}}
    # As a request by HTTP goes, from admission to the ledger.
    request = HttpRequest()
    request.method = "POST"
    request.path_info = request.path = "/api/alpha/decisions"
    response: Any = DecisionsViewSet().execute(request, caller, body)
    answers = loads(response.content)["answers"]
    undone = 1 / (model.decisions_temperature or 1.0)
    examples = []
    for name, right in line.right.items():
        answer = answers[name]
        if answer["type"] == "noul":
            shares = (answer["noul"], 1 - answer["noul"])
        else:
            shares = tuple(answer["probabilities"].values())
        example = Example(apply_temperature(shares, undone), right)
        examples.append(_NamedExample(name, example))
    return examples


def _split_in_halves(
    examples: Sequence[Sequence[_NamedExample]],
) -> tuple[list[_NamedExample], list[_NamedExample]]:
    """By lines, so that no state is in both. Raises `Refused` where one is too small."""
    halves = [[one for line in examples[half::2] for one in line] for half in (0, 1)]
    if min(map(len, halves)) < _HALF_MIN:
        raise Refused(
            f"Too few questions were answered: {len(halves[0])} and {len(halves[1])} in the two "
            f"halves, {_HALF_MIN} are needed in each"
        )
    return halves[0], halves[1]


def _serialize_report(report: CalibrationReport) -> JsonObject:
    return {
        "accuracy": round(report.accuracy, 6),
        "calibration_error": round(report.error, 6),
        "loss": round(report.loss, 6),
        "bins": [each._asdict() for each in report.bins],
    }
