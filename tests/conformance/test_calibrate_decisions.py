"""`manage.py calibrate_decisions` against a running gateway's stores and upstreams."""

import json
import re
from math import log
from pathlib import Path
from typing import Any

import pytest

from gateway.commands import Refused
from routing.decisions.calibration import apply_temperature
from routing.management.commands.calibrate_decisions import read_labelled_lines
from tests.conformance.deciding import NOUL, SCORE, DecisionsDesk
from tests.support import processes
from tests.support.manage import Outcome

pytestmark = pytest.mark.thorough

# Sure of a yes, and right seven times in ten.
SURE, RIGHT, LINES = 0.95, 7, 80


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "labelled.jsonl"
    lines = [line(state=f"Letter {n}", answers={"q": n % 10 < RIGHT}) for n in range(LINES)]
    file.write_text("\n".join([*lines, "", ""]))
    return file


@pytest.fixture
def sure(deciding: DecisionsDesk) -> DecisionsDesk:
    """Both upstreams of the judge are sure."""
    for persona in ("judge-a", "judge-b", "numbers-a"):
        verdict = {"when": "money back", "weights": {"yes": SURE, "no": 1 - SURE}}
        deciding.upstream.verdicts(persona, verdict)
    return deciding


def line(**changed: Any) -> str:
    return json.dumps(
        {"state": "A letter", "questions": {"q": NOUL}, "answers": {"q": True}} | changed
    )


def calibrate(desk: DecisionsDesk, file: Path, *options: str, model: str = "acme/judge") -> Outcome:
    words = [str(file), "--model", model, "--key-hash", desk.account.api_key_hash, "--json"]
    return desk.server.run_command("calibrate_decisions", *words, *options)


def check_refusal(outcome: Outcome, text: str) -> None:
    assert outcome.status == 1, outcome
    assert text in outcome.json()["error"]


def fitted_temperature(share: float) -> float:
    """The temperature that makes the model as sure as it is right."""
    return log(SURE / (1 - SURE)) / log(share / (1 - share))


def test_a_model_that_is_too_sure_is_cooled_down(sure: DecisionsDesk, file: Path) -> None:
    catalogue = sure.server.run_command("dump_catalogue").stdout
    found = calibrate(sure, file).json()

    # Every line is a request that is paid, and nothing is stored unless wanted.
    asked = [entry for entry in sure.upstream.requests() if "messages" in entry["body"]]
    assert len(asked) == LINES
    assert sure.total_usage_nano() > sure.spent_nano
    assert (found["applied"], found["stored_temperature"]) == (False, None)
    assert sure.server.run_command("dump_catalogue").stdout == catalogue
    assert "<svg" in file.with_suffix(".svg").read_text()
    assert found["diagram"] == str(file.with_suffix(".svg"))
    assert found["fitted_on"] == found["told_on"] == LINES / 2
    # Which line is in which half is drawn: the share of right ones in the other half is known.
    share = 2 * RIGHT / 10 - found["before"]["accuracy"]
    assert found["temperature"] == pytest.approx(fitted_temperature(share), rel=0.01)
    off = abs(SURE - found["before"]["accuracy"])
    assert found["before"]["calibration_error"] == pytest.approx(off, abs=1e-6)
    after = abs(share - found["after"]["accuracy"])
    assert found["after"]["calibration_error"] == pytest.approx(after, abs=0.01)
    assert found["after"]["loss"] < found["before"]["loss"]
    assert found["failed"] == {}


def test_what_is_stored_is_applied_to_answers(sure: DecisionsDesk, file: Path) -> None:
    found = calibrate(sure, file, "--apply", model="acme/fitted").json()
    again = calibrate(sure, file, model="acme/fitted").json()

    assert found["stored_temperature"] == found["temperature"] == again["stored_temperature"]
    # What was stored is undone before it is fitted anew.
    assert again["temperature"] == pytest.approx(found["temperature"], rel=0.01)
    assert again["before"]["loss"] == pytest.approx(found["before"]["loss"])
    meant, _ = apply_temperature((SURE, 1 - SURE), found["temperature"])

    def is_served() -> bool:
        noul: float = sure.answers({"q": NOUL}, model="acme/fitted")["q"]["noul"]
        return abs(noul - meant) < 1e-9

    processes.eventually(is_served, within_s=10, what="the stored temperature", log=None)


UNUSABLE = [
    ("{", "line 1 is no JSON"),
    ("[]", "line 1: an object with"),
    (line(answers=None), "line 1: an object with"),
    (line(state=5), "line 1: state"),
    (line(questions={}), "line 1: questions"),
    (line(answers={"other": True}), "line 1: there is no question 'other'"),
    (line(answers={"q": "yes"}), "line 1: 'yes' is no answer to 'q'"),
    (line(questions={"q": SCORE}, answers={"q": 3}), "line 1: 3 is no answer"),
    (line(questions={"q": SCORE}, answers={"q": True}), "line 1: True is no answer"),
    ("\n" + line() + "\n{", "line 3 is no JSON"),
]


@pytest.mark.parametrize(("text", "why"), UNUSABLE)
def test_a_line_that_cannot_be_used_is_named(file: Path, text: str, why: str) -> None:
    file.write_text(text)
    with pytest.raises(Refused, match=re.escape(why)):
        read_labelled_lines(file, model="acme/judge")


def test_what_cannot_be_used_is_refused(deciding: DecisionsDesk, file: Path) -> None:
    for model, why in (("acme/unknown", "There is no model"), ("typesafe/jev-1.13", "natively")):
        check_refusal(calibrate(deciding, file, model=model), why)
    words = [str(file), "--model", "acme/judge", "--json", "--key-hash"]
    unknown = deciding.server.run_command("calibrate_decisions", *words, "0" * 64)
    check_refusal(unknown, "There is no key")
    assert calibrate(deciding, file, "--diagram", "diagram.png").status == 2
    check_refusal(calibrate(deciding, file.with_name("none.jsonl")), "cannot be read")
    file.write_text(line())
    check_refusal(calibrate(deciding, file), "Too few questions")
