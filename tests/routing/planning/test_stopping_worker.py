"""Decisions that the gateway asks for while its worker is stopping."""

from math import inf
from typing import Any
from unittest.mock import Mock

import pytest
from gevent import GreenletExit

from accounts.external_guards import read_external_guards
from accounts.guard_rules import PlacedGuard
from gateway.http.errors import Unavailable
from routing.planning import classification
from routing.planning.classification import classify_prompt
from routing.planning.external_guards import ExternalGuards


def stop(*_: Any) -> None:
    """As a decision ends whose worker is stopping."""
    raise Unavailable from GreenletExit()


def test_a_classifier_s_request_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # No decision is asked for: only what becomes of its end is looked at, and it ends as here.
    plugin = {"id": "auto-router", "classifier": {"classes": {}}}
    monkeypatch.setattr(classification, "find_auto_plugin", lambda *_: plugin)
    monkeypatch.setattr(classification, "_ask", stop)
    planning = Mock(plugins=())
    planning.asked.conversation.model_id.return_value = planning.caller.guard = None

    with pytest.raises(Unavailable):
        classify_prompt(Mock(), planning, is_answered=lambda: False)


def test_a_guard_s_request_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"kind": "decision", "on": "both", "action": "block", "shadow": False}
    said |= {"timeout_ms": 100, "on_failure": "open", "model": "solo/judge"}
    (guard,) = read_external_guards([said])
    # Nor here: of the request only its deadline counts.
    guards = ExternalGuards(Mock(deadline=inf), [PlacedGuard(guard, "workspace", None)])
    monkeypatch.setattr(guards, "_decide", stop)

    for side in ("input", "output"):
        with pytest.raises(Unavailable):
            guards.find_refusal(side, ["Hello"])
    assert guards.checks == []
