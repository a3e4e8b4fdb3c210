"""Presets as requests find them."""

import uuid
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Workspace
from gateway.http.errors import DatabaseGone
from routing.presets import read
from routing.presets.models import Preset
from routing.presets.read import find_active_preset, forget_active_presets
from routing.presets.schema import is_slug
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
BODY = {"model": "acme/solo", "messages": [{"role": "system", "content": "S"}]}


@pytest.fixture
def workspace(db: None) -> Workspace:
    """Its preset `mail` has two versions."""
    forget_active_presets()
    mine: Manager = manager("mine")
    for temperature in (0.1, 0.2):
        body = BODY | {"temperature": temperature}
        mine.ok("POST", "/presets/mail/chat/completions", body)
    workspace: Workspace = mine.account.workspaces.get()
    return workspace


def test_the_version_in_force_is_found_in_one_query(workspace: Workspace) -> None:
    with CaptureQueriesContext(connection) as first:
        found = find_active_preset(workspace.pk, "mail")
    with CaptureQueriesContext(connection) as again:
        assert find_active_preset(workspace.pk, "mail") is found

    assert found is not None
    assert found.config == {"model": "acme/solo", "temperature": 0.2}
    assert found.system_prompt == "S"
    assert (len(first), len(again)) == (1, 0)


def test_what_is_not_active_is_not_found_and_that_there_is_none_is_remembered(
    workspace: Workspace,
) -> None:
    for status in ("disabled", "archived"):
        forget_active_presets()
        Preset.objects.update(status=status)
        assert find_active_preset(workspace.pk, "mail") is None
    with CaptureQueriesContext(connection) as again:
        assert find_active_preset(workspace.pk, "mail") is None
    assert len(again) == 0


def test_nothing_is_found_elsewhere_or_under_another_name(workspace: Workspace) -> None:
    assert find_active_preset(uuid.uuid4(), "mail") is None
    assert find_active_preset(workspace.pk, "Mail") is None
    with CaptureQueriesContext(connection) as none:
        for slug in ("", ".", "..", "a b", "x" * 101, "a\n"):
            assert not is_slug(slug)
            assert find_active_preset(workspace.pk, slug) is None
    assert len(none) == 0


def test_a_silent_database_is_no_missing_preset(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_query(*_: Any) -> None:
        raise DatabaseError

    monkeypatch.setattr(read, "run_queries", fail_query)

    with pytest.raises(DatabaseGone):
        find_active_preset(workspace.pk, "mail")
