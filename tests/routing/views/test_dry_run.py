"""A request that is only planned, to see whether the response cache answers it.

Mocks stand for everything around the one step that is looked at: how often a request is planned,
and how, shows in no answer.
"""

from typing import Any
from unittest.mock import Mock, call

import pytest

from gateway.http.errors import Unavailable
from routing.planning import pipeline
from routing.views import inference
from routing.views.inference import ChatViewSet, TokenCountViewSet


@pytest.mark.parametrize(
    ("header", "has_default", "body", "is_planned"),
    [
        ({}, False, {}, False),
        ({"HTTP_X_ROUTER_CACHE": "true"}, False, {}, True),
        ({}, True, {}, True),
        ({}, False, {"preset": "cached"}, True),
    ],
)
def test_only_what_may_be_cached_is_planned_before(
    monkeypatch: pytest.MonkeyPatch,
    header: dict[str, str],
    has_default: bool,
    body: dict[str, Any],
    is_planned: bool,
) -> None:
    plans: list[dict[str, Any]] = []

    def admit(*_: Any, **options: Any) -> Any:
        plans.append(options)
        if classify := options.get("classify"):
            classify.keywords["is_answered"]()
            raise Unavailable
        return Mock()

    monkeypatch.setattr(inference, "admit", admit)
    monkeypatch.setattr(inference, "has_stored_answer", lambda *_: False)
    with pytest.raises(Unavailable):
        ChatViewSet().execute(Mock(META=header), Mock(shares_cache=has_default), body)

    assert [each.get("is_dry_run", False) for each in plans] == [False, *[True] * is_planned]
    # Whether content is logged depends on the generation's id, and so does whose answer is had.
    assert len({each["chosen_id"] for each in plans} - {None}) == 1


def test_a_count_is_only_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "admit", admit := Mock())
    monkeypatch.setattr(inference, "count_input_tokens", lambda _: 7)
    monkeypatch.setattr(inference, "read_object", Mock())
    monkeypatch.setattr(TokenCountViewSet, "authenticate_caller", Mock())

    TokenCountViewSet().create(Mock())

    assert admit.call_args.kwargs["is_dry_run"] is True


@pytest.mark.parametrize("is_dry_run", [False, True])
def test_a_dry_run_takes_no_probe(monkeypatch: pytest.MonkeyPatch, is_dry_run: bool) -> None:
    plan, asked = Mock(probe=7), Mock(return_value=True)
    monkeypatch.setattr(pipeline, "select", lambda *_, **__: plan)
    monkeypatch.setattr(pipeline, "state_for", Mock())
    monkeypatch.setattr(pipeline, "may_go_on", lambda plan, _: asked(plan.probe))
    planning = Mock(is_dry_run=is_dry_run)

    pipeline._choose(planning)

    assert planning.plan is plan
    assert asked.call_args_list == ([] if is_dry_run else [call(7)])
