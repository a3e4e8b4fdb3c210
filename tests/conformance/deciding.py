"""Asking a desk's gateway for decisions."""

import json
from math import isclose
from typing import Any

import requests

from tests.conformance.desk import Desk, exact
from tests.support.server import as_json

DECISIONS = "/api/alpha/decisions"
SYSTEMONE = "/api/v1/systemone"
STATE = "The parcel came broken. I would like my money back."
NOUL = {"type": "noul", "instructions": "Does the customer want money back?"}
CHOICE = {
    "type": "choice",
    "instructions": "Which team should answer?",
    "criteria": {"billing": "Money", "support": None, "sales": {"sells": ["new", "used"]}},
}
SCORE = {
    "type": "score",
    "instructions": "How friendly is the customer?",
    "criteria": ["hostile", "neutral", "friendly"],
}


class DecisionsDesk(Desk):
    """One caller of decisions."""

    path = DECISIONS

    def post(self, *, headers: dict[str, str] | None = None, **body: Any) -> requests.Response:
        """A request for one noul, valid but for what `body` says."""
        given = {"model": self.model, "state": STATE, "questions": {"q": NOUL}} | body
        return self.raw(json.dumps(given).encode(), headers=headers or {})

    def raw(self, body: bytes, *, headers: dict[str, str] | None = None) -> requests.Response:
        sent = {"Content-Type": "application/json", **(headers or {})}
        return self.server.post(self.path, key=self.account.api_key, data=body, headers=sent)

    def at(self, path: str) -> "DecisionsDesk":
        """The same caller at the other path."""
        other = DecisionsDesk(self.server, self.upstream, self.account, self.model, self.spent_nano)
        other.path = path
        return other

    def answers(self, questions: dict[str, Any], **body: Any) -> Any:
        """The answers to these questions, in plain floats and in good order."""
        response = self.post(questions=questions, **body)
        assert response.status_code == 200, response.text
        answers = as_json(response)["answers"]
        assert list(answers) == list(questions)
        for name, answer in answers.items():
            check(questions[name], answer)
        return answers

    def paid(self, response: requests.Response) -> int:
        """What an answer cost by its own word, which all the books must repeat."""
        assert response.status_code == 200, response.text
        return self.paid_nano(exact(response))

    def labels(self) -> list[list[str]]:
        """The names of the questions in each call that native upstreams received."""
        entries = [entry["body"] for entry in self.upstream.requests()]
        return [list(body["questions"]) for body in entries if "questions" in body]


def judging(desk: Desk) -> DecisionsDesk:
    """The desk's caller, asking for decisions."""
    return DecisionsDesk(desk.server, desk.upstream, desk.account, "typesafe/jev-1.13")


def check(question: dict[str, Any], answer: dict[str, Any]) -> None:
    """What every answer to such a question is like."""
    assert answer["type"] == question["type"]
    if question["type"] == "noul":
        assert answer.keys() == {"type", "noul"}
        assert 0 <= answer["noul"] <= 1
        return
    shares = answer["probabilities"]
    assert isclose(sum(shares.values()), 1, abs_tol=1e-9)
    assert 0 <= answer["confidence"] <= 1
    if question["type"] == "choice":
        assert answer.keys() == {"type", "choice", "confidence", "probabilities"}
        assert list(shares) == list(question["criteria"])
        assert shares[answer["choice"]] == max(shares.values())
        return
    assert answer.keys() == {"type", "score", "confidence", "probabilities", "legend"}
    levels = [str(level) for level in range(len(question["criteria"]))]
    assert list(shares) == list(answer["legend"]) == levels
    assert list(answer["legend"].values()) == question["criteria"]
    mean = sum(int(level) * share for level, share in shares.items())
    assert isclose(answer["score"], mean, abs_tol=1e-9)
