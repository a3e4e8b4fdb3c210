"""The `openrouter` package, unmodified, asking for decisions at both paths."""

from collections.abc import Iterator
from typing import Any

import pytest
from openrouter import OpenRouter, errors

from tests.conformance.deciding import CHOICE, NOUL, SCORE, STATE, DecisionsDesk

QUESTIONS: Any = {"noul": NOUL, "team": CHOICE, "mood": SCORE}


@pytest.fixture
def client(deciding: DecisionsDesk) -> Iterator[OpenRouter]:
    with OpenRouter(
        api_key=deciding.account.api_key, server_url=deciding.server.base_url, retry_config=None
    ) as client:
        yield client


@pytest.mark.parametrize("model", ["typesafe/jev-1.13", "acme/judge", "acme/numbers"])
def test_answers_of_every_type(client: OpenRouter, deciding: DecisionsDesk, model: str) -> None:
    # The package knows this one path by the root of the server.
    answer: Any = client.alpha.decisions.create(
        model=model,
        state=STATE,
        questions=QUESTIONS,
        server_url=deciding.server.root_url,
        session_id="s",
        trace={"trace_id": "t"},
        user="u",
        provider={"sort": "price"},
    )

    assert list(answer.answers) == ["noul", "team", "mood"]
    assert 0 <= answer.answers["noul"].noul <= 1
    assert answer.answers["team"].choice in CHOICE["criteria"]
    assert answer.answers["mood"].legend == {"0": "hostile", "1": "neutral", "2": "friendly"}
    assert (answer.model, answer.id[:8]) == (model, "gen-dec-")
    assert answer.usage.cost > 0


@pytest.mark.parametrize("model", ["jev-1.13", "jev-latest", "acme/judge"])
def test_answers_at_the_compatible_path(client: OpenRouter, model: str) -> None:
    answer: Any = client.system_one.create(
        model=model, state={"mail": [STATE]}, questions=QUESTIONS
    )

    assert sum(answer.answers["team"].probabilities.values()) == pytest.approx(1)
    assert answer.provider


def test_refusals(client: OpenRouter, deciding: DecisionsDesk) -> None:
    with pytest.raises(errors.BadRequestResponseError) as refused:
        client.system_one.create(model="acme/off", state=STATE, questions=QUESTIONS)
    assert refused.value.status_code == 400

    deciding.upstream.script("native-a", {"fault": "529"}, repeat=True)
    deciding.upstream.script("native-b", {"fault": "529"}, repeat=True)
    with pytest.raises(errors.OpenRouterError) as failed:
        client.system_one.create(model="jev-1.13", state=STATE, questions=QUESTIONS)
    assert failed.value.status_code == 529
