"""Questions whose right answers are known, as operators write them down."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gateway.commands import Refused
from gateway.http.errors import MalformedJson
from gateway.http.jsonio import JsonObject, loads
from routing.decisions.question import TypedQuestion
from routing.formats.chat.request import ChatInvalid
from routing.formats.decisions import parse_decisions, read_questions


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
