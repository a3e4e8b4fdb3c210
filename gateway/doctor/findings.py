"""What an examination finds, and the examinations there are.

Apps add theirs with `register` when they are ready. An examination changes nothing.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from django.utils.module_loading import import_string

log = logging.getLogger("gateway")
State = Literal["ok", "warning", "problem", "unknown"]


@dataclass(frozen=True)
class Finding:
    """One sentence about one subject. Only a `problem` makes the doctor's exit status 1; `unknown`
    is what cannot be seen from here."""

    subject: str
    state: State
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Question:
    """What the operator says of the deployment. `url` is its own address, or empty; `backups` the
    folder of its backups, or None."""

    url: str = ""
    backups: Path | None = None
    backup_hours: float = 26.0


Examination = Callable[[Question], Iterable[Finding]]
_examinations: dict[str, str] = {}


def register(subject: str, examination: str) -> None:
    """Add an `Examination` by its import path, which only the doctor imports. What it raises is a
    problem."""
    _examinations[subject] = examination


def examine(question: Question) -> Iterator[Finding]:
    """Every finding, in the order of registration."""
    for subject, path in _examinations.items():
        try:
            examination: Examination = import_string(path)
            yield from examination(question)
        except Exception as error:
            # The other subjects are looked at all the same; that is what a doctor is for.
            log.debug("An examination failed", exc_info=error)
            text = str(error).strip().splitlines()
            yield Finding(subject, "problem", text[0] if text else type(error).__name__)
