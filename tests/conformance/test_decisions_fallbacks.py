"""Questions that an endpoint does not answer go on to the next one, and no other ones with them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conformance.deciding import CHOICE, NOUL, SCORE, STATE, DecisionsDesk, judging
from tests.conformance.desk import Desk, nano
from tests.support.server import as_json

ASKED = {"X-Router-Metadata": "enabled"}
NUMBERED = {f"q{n}": {**NOUL, "instructions": f"Is it number {n}?"} for n in range(20)}


def asked_of(desk: DecisionsDesk, persona: str) -> list[int]:
    """Which of the numbered questions a chat provider was asked, in order of arrival."""
    texts = [entry["body"]["messages"][-1]["content"] for entry in desk.upstream.requests(persona)]
    return [int(text.partition("number ")[2].partition("?")[0]) for text in texts]


def test_only_what_failed_is_asked_again(deciding: DecisionsDesk) -> None:
    deciding.upstream.verdicts(
        "judge-a",
        *({"when": f"number {n}?", "fault": "500"} for n in (3, 17)),
        # Without a label it is no answer.
        {"when": "number 5?", "tokens": [["maybe", -0.1], ["perhaps", -3.0]]},
    )
    order = {"order": ["judge-a", "judge-b"]}

    response = deciding.post(model="acme/judge", questions=NUMBERED, provider=order, headers=ASKED)

    deciding.paid(response)
    body = as_json(response)
    assert list(body["answers"]) == list(NUMBERED)
    assert sorted(asked_of(deciding, "judge-a")) == list(range(20))
    assert sorted(asked_of(deciding, "judge-b")) == [3, 5, 17]
    told = body["router_metadata"]
    assert body["provider"] == "Judge B"
    assert (told["attempt"], len(told["attempts"])) == (2, 2)
    # Of its three failures the first to come counts: two are 500, one is no answer.
    assert [each["status"] for each in told["attempts"]] in ([500, 200], [502, 200])
    chosen = [each["provider"] for each in told["endpoints"]["available"] if each["selected"]]
    assert chosen == ["Judge B"]


@pytest.mark.parametrize(("failing", "is_out"), [(3, False), (7, True)])
def test_an_outage_of_one_question_is_over_with_the_next_answer(
    equipped_desk: Desk, failing: int, is_out: bool
) -> None:
    """There failures are remembered for a while."""
    deciding = judging(equipped_desk)
    faults = [{"when": f"number {failing}?", "fault": "500"}]
    last = {"when": "number 7?", "gate": "last", **({"fault": "500"} if failing == 7 else {})}
    deciding.upstream.verdicts("judge-a", last, *faults)
    eight = {f"q{n}": NUMBERED[f"q{n}"] for n in range(8)}
    order = {"order": ["judge-a", "judge-b"]}

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(deciding.post, model="acme/judge", questions=eight, provider=order)
        for nth in range(1, 9):
            body = deciding.upstream.wait(nth, "received")["body"]
            if "number 7?" not in body["messages"][-1]["content"]:
                deciding.upstream.wait(nth, "ended")
        # The one process has read what it was answered before it answers something else.
        deciding.server.get("/livez")
        deciding.upstream.open_gate("last")
        assert asking.result().status_code == 200

    # Of two that are well the dearer one comes first one time in five.
    providers = {as_json(deciding.post(model="acme/judge"))["provider"] for _ in range(12)}
    assert ("Judge A" not in providers) == is_out


@pytest.mark.parametrize("fault", ["429", "401"])
def test_who_refuses_everybody_is_not_asked_any_more(deciding: DecisionsDesk, fault: str) -> None:
    deciding.upstream.script("judge-a", {"fault": fault}, repeat=True)
    order = {"order": ["judge-a", "judge-b"]}

    deciding.paid(deciding.post(model="acme/judge", questions=NUMBERED, provider=order))

    assert len(asked_of(deciding, "judge-a")) <= 8
    assert sorted(asked_of(deciding, "judge-b")) == list(range(20))


def test_every_way_may_come_after_every_other(deciding: DecisionsDesk) -> None:
    wrong = {"when": "Does", "answer": {"type": "noul", "noul": 7}}
    unlabelled = {"when": "friendly", "tokens": [["?", -0.1]]}
    deciding.upstream.verdicts("native-a", wrong, {"when": "friendly", "answer": {"type": "box"}})
    deciding.upstream.verdicts(
        "judge-a", {"when": "Does", "weights": {"yes": 3, "no": 1}}, unlabelled
    )
    order = ["native-a", "judge-a", "numbers-a"]

    response = deciding.post(
        model="acme/mixed",
        questions={"noul": NOUL, "choice": CHOICE, "score": SCORE},
        provider={"order": order},
        headers=ASKED,
    )

    deciding.paid(response)
    body = as_json(response)
    assert list(body["answers"]) == ["noul", "choice", "score"]
    assert body["answers"]["noul"]["noul"] == pytest.approx(0.75)
    told = body["router_metadata"]
    assert [each["status"] for each in told["attempts"]] == [502, 502, 200]
    by_label, by_number = told["pipeline"]
    assert by_label["type"] == by_number["type"] == "decisions"
    assert by_label["data"]["method"] == "logprobs"
    assert by_label["data"]["label_mass"].keys() == {"noul"}
    assert 0 < by_label["data"]["label_mass"]["noul"] <= 1
    assert by_number["data"] == {"method": "schema"}
    called = [entry["persona"] for entry in deciding.upstream.requests()]
    assert called == ["native-a", "judge-a", "judge-a", "numbers-a"]
    # A native answer says nothing of a way.
    assert "pipeline" not in as_json(deciding.post(headers=ASKED))["router_metadata"]


def test_a_missing_answer_is_a_502_when_nobody_has_it(deciding: DecisionsDesk) -> None:
    for persona in ("native-a", "native-b"):
        deciding.upstream.verdicts(persona, {"when": "Does", "answer": {"type": "score"}})

    response = deciding.post(questions={"a": NOUL, "b": CHOICE}, headers=ASKED)

    error = deciding.check_error(response, 502, "provider_unavailable")
    assert len(error["metadata"]["previous_errors"]) == 1
    assert as_json(response)["router_metadata"]["attempt"] == 2
    record = deciding.generation(response.headers["X-Generation-Id"])
    assert nano(record["total_cost"]) == 0
    assert deciding.total_usage_nano() == deciding.spent_nano


def test_at_most_eight_questions_are_asked_at_once(deciding: DecisionsDesk) -> None:
    deciding.upstream.verdicts("judge-a", {"when": "number", "gate": "held"})
    body: dict[str, Any] = {"model": "acme/judge", "provider": {"only": ["judge-a"]}}

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(lambda: deciding.post(questions=NUMBERED, **body))
        deciding.upstream.wait(8, "received")
        assert len(deciding.upstream.requests("judge-a")) == 8
        deciding.upstream.open_gate("held")
        response = asking.result()

    assert response.status_code == 200, response.text
    assert len(deciding.upstream.requests("judge-a")) == 20


def test_a_provider_gets_what_is_asked_and_nothing_of_the_caller(deciding: DecisionsDesk) -> None:
    said: dict[str, Any] = {
        "user": "somebody",
        "session_id": "a session",
        "trace": {"trace_id": "t", "mine": 1},
        "provider": {"only": ["native-a"]},
        "stream": True,
        "odd": 1,
    }
    questions = {"q": NOUL, "team": CHOICE, "mood": SCORE}

    response = deciding.post(questions=questions, headers={"x-session-id": "another"}, **said)

    assert response.status_code == 200, response.text
    assert deciding.the_one_sent("native-a") == {
        "model": "jev-1.13",
        "state": STATE,
        "questions": questions,
    }
    record = deciding.generation(as_json(response)["id"])
    assert record["session_id"] == "a session"
    assert record["external_user"]
    assert record["api_type"] == "decisions"
    assert record["finish_reason"] == "stop"


def test_limits_of_a_provider_are_met_by_asking_in_parts(deciding: DecisionsDesk) -> None:
    labels = {f"label {n}": f"number {n}" for n in range(23)}
    weights = {f"label {n}": float(n) for n in range(23)}
    levels = [f"level {n}" for n in range(10)]
    deciding.upstream.verdicts("small-native", {"when": "Which", "weights": weights})
    questions = {
        "team": {**CHOICE, "criteria": labels},
        "mood": {**SCORE, "criteria": levels},
        **{f"n{n}": NOUL for n in range(4)},
    }

    answers = deciding.answers(questions, model="acme/small-native")

    assert answers["team"]["choice"] == "label 22"
    shares = answers["team"]["probabilities"]
    assert shares == pytest.approx({name: n / sum(range(23)) for n, name in enumerate(labels)})
    for entry in deciding.upstream.requests("small-native"):
        asked = entry["body"]["questions"]
        assert len(asked) <= 3
        for question in asked.values():
            limit = {"choice": 4, "score": 3, "noul": 2}[question["type"]]
            assert len(question.get("criteria", ())) <= limit
    # Questions of more than one call keep their names.
    deciding.upstream.clear()
    deciding.answers({f"my {n}": NOUL for n in range(7)}, model="acme/small-native")
    names = [["my 0", "my 1", "my 2"], ["my 3", "my 4", "my 5"], ["my 6"]]
    assert sorted(deciding.labels()) == names
