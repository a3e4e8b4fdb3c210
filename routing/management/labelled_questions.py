"""Questions whose right answers are known, as operators write them down."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gateway.commands import Refused
from gateway.http.errors import MalformedJson
from gateway.http.jsonio import loads
from routing.decisions.question import TypedQuestion
from routing.formats.chat.request import ChatInvalid
from routing.formats.decisions.request import parse_decisions, read_questions


class LabelledLine(NamedTuple):
    """One line of a file: a request for decisions, and of each question the right label's place."""

    number: int
    body: dict[str, Any]
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
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    return [_labelled(number, line, model) for number, line in numbered]


def _labelled(number: int, line: bytes, model: str) -> LabelledLine:
    try:
        return _read(number, line, model)
    except MalformedJson as error:
        raise Refused(f"line {number} is no JSON") from error
    except (ChatInvalid, ValueError) as error:
        raise Refused(f"line {number}: {error}") from error


def _read(number: int, line: bytes, model: str) -> LabelledLine:
    """Raises ValueError with the reason, `ChatInvalid` and `MalformedJson`."""
    said = loads(line)
    if not isinstance(said, dict) or not isinstance(said.get("answers"), dict):
        raise ValueError("an object with `state`, `questions` and `answers` is expected")
    body: dict[str, Any] = {
        "model": model,
        "state": said.get("state"),
        "questions": said.get("questions"),
    }
    parse_decisions(body, session_header=None)
    questions = read_questions(body)
    right = dict(_right(questions, said["answers"]))
    asked = {name: body["questions"][name] for name in right}
    return LabelledLine(number, body | {"questions": asked}, right)


def _right(
    questions: Mapping[str, TypedQuestion], answers: Mapping[str, Any]
) -> Iterator[tuple[str, int]]:
    for name, answer in answers.items():
        question = questions.get(name)
        if question is None:
            raise ValueError(f"there is no question {name!r}")
        label = _label(question, answer)
        if label not in question.labels:
            raise ValueError(f"{answer!r} is no answer to {name!r}")
        yield name, question.labels.index(label)


def _label(question: TypedQuestion, answer: Any) -> str | None:
    """None for what is of the wrong type."""
    if question.kind == "noul":
        return question.labels[0 if answer else 1] if isinstance(answer, bool) else None
    if question.kind == "score":
        return str(answer) if type(answer) is int else None
    return answer if isinstance(answer, str) else None
