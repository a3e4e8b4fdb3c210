"""`manage.py calibrate_decisions` against a running gateway's stores and upstreams."""

import json
from math import log
from pathlib import Path
from typing import Any

import pytest

from routing.decisions.calibration import calibrated
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


def refused(outcome: Outcome, text: str) -> None:
    assert outcome.status == 1, outcome
    assert text in outcome.json()["error"]


def fitted(share: float) -> float:
    """The temperature that makes the model as sure as it is right."""
    return log(SURE / (1 - SURE)) / log(share / (1 - share))


def test_a_model_that_is_too_sure_is_cooled_down(sure: DecisionsDesk, file: Path) -> None:
    found = calibrate(sure, file).json()

    assert found["fitted_on"] == found["told_on"] == LINES / 2
    # Which line is in which half is drawn: the share of right ones in the other half is known.
    share = 2 * RIGHT / 10 - found["before"]["accuracy"]
    assert found["temperature"] == pytest.approx(fitted(share), rel=0.01)
    off = abs(SURE - found["before"]["accuracy"])
    assert found["before"]["calibration_error"] == pytest.approx(off, abs=1e-6)
    after = abs(share - found["after"]["accuracy"])
    assert found["after"]["calibration_error"] == pytest.approx(after, abs=0.01)
    assert found["after"]["loss"] < found["before"]["loss"]
    assert found["failed"] == {}


def test_every_line_is_a_request_that_is_paid(sure: DecisionsDesk, file: Path) -> None:
    before = sure.total_usage_nano()
    calibrate(sure, file)

    asked = [entry for entry in sure.upstream.requests() if "messages" in entry["body"]]
    assert len(asked) == LINES
    assert sure.total_usage_nano() > before


def test_nothing_is_stored_unless_wanted(sure: DecisionsDesk, file: Path) -> None:
    before = sure.server.run_command("dump_catalogue").stdout
    found = calibrate(sure, file).json()

    assert (found["applied"], found["stored_temperature"]) == (False, None)
    assert sure.server.run_command("dump_catalogue").stdout == before


def test_what_is_stored_is_applied_to_answers(sure: DecisionsDesk, file: Path) -> None:
    found = calibrate(sure, file, "--apply", model="acme/fitted").json()
    again = calibrate(sure, file, model="acme/fitted").json()

    assert found["stored_temperature"] == found["temperature"] == again["stored_temperature"]
    # What was stored is undone before it is fitted anew.
    assert again["temperature"] == pytest.approx(found["temperature"], rel=0.01)
    assert again["before"]["loss"] == pytest.approx(found["before"]["loss"])
    meant, _ = calibrated((SURE, 1 - SURE), found["temperature"])

    def served() -> bool:
        noul: float = sure.answers({"q": NOUL}, model="acme/fitted")["q"]["noul"]
        return abs(noul - meant) < 1e-9

    processes.eventually(served, within_s=10, what="the stored temperature", log=None)


def test_a_stored_temperature_does_not_change_what_is_found(
    sure: DecisionsDesk, file: Path
) -> None:
    cold = calibrate(sure, file, model="acme/judge").json()
    warm = calibrate(sure, file, model="acme/warm").json()

    assert warm["temperature"] == pytest.approx(cold["temperature"], rel=0.01)
    assert warm["before"]["calibration_error"] == pytest.approx(cold["before"]["calibration_error"])


def test_natives_of_a_mixed_model_are_passed_over(sure: DecisionsDesk, file: Path) -> None:
    assert calibrate(sure, file, model="acme/mixed").status == 0

    assert not [each for each in sure.upstream.requests() if "questions" in each["body"]]


def test_the_diagram_lies_beside_the_file_or_where_it_is_wanted(
    sure: DecisionsDesk, file: Path
) -> None:
    found = calibrate(sure, file).json()
    elsewhere = file.with_name("elsewhere.svg")
    calibrate(sure, file, "--diagram", str(elsewhere))

    assert found["diagram"] == str(file.with_suffix(".svg"))
    assert file.with_suffix(".svg").read_text() == elsewhere.read_text()
    assert "<svg" in elsewhere.read_text()


def test_lines_that_no_upstream_answers_are_told(sure: DecisionsDesk, file: Path) -> None:
    broken = line(questions={"q": SCORE}, answers={"q": 1})
    file.write_text(f"{broken}\n{file.read_text()}")
    for persona in ("judge-a", "judge-b"):
        sure.upstream.verdicts(
            persona,
            {"when": "friendly", "status": 503},
            {"when": "money back", "weights": {"yes": SURE, "no": 1 - SURE}},
        )

    found = calibrate(sure, file).json()

    assert list(found["failed"]) == ["1"]
    assert found["fitted_on"] + found["told_on"] == LINES


@pytest.mark.parametrize(
    ("text", "why"),
    [
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
        (line(), "Too few questions"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    deciding: DecisionsDesk, tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "labelled.jsonl"
    file.write_text(text)

    refused(calibrate(deciding, file), why)


def test_a_file_that_is_not_there_is_refused(deciding: DecisionsDesk, tmp_path: Path) -> None:
    refused(calibrate(deciding, tmp_path / "none.jsonl"), "cannot be read")


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("acme/unknown", "There is no model"),
        ("typesafe/jev-1.13", "natively"),
        ("acme/off", "not at all"),
    ],
)
def test_other_models_are_refused(
    deciding: DecisionsDesk, file: Path, model: str, why: str
) -> None:
    refused(calibrate(deciding, file, model=model), why)


def test_only_a_key_that_may_ask_asks(deciding: DecisionsDesk, file: Path) -> None:
    words = [str(file), "--model", "acme/judge", "--json", "--key-hash"]
    unknown = deciding.server.run_command("calibrate_decisions", *words, "0" * 64)

    refused(unknown, "There is no key")


def test_a_diagram_is_an_svg(deciding: DecisionsDesk, file: Path) -> None:
    outcome = calibrate(deciding, file, "--diagram", "diagram.png")

    assert outcome.status == 2


def test_a_person_is_told_the_same(sure: DecisionsDesk, file: Path) -> None:
    words = [str(file), "--model", "acme/judge", "--key-hash", sure.account.api_key_hash]
    told = sure.server.run_command("calibrate_decisions", *words).stdout.splitlines()

    assert told[0].startswith("temperature ")
    assert told[1].startswith("before: ")
    assert told[-1] == "not stored; --apply stores it"
