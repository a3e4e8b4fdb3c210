"""Conversations that are named after an end user are erased with him."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.models import AuditRecord
from accounts.services.records import SYSTEM
from interns.models import ChatInteraction, ChatRun, ChatSession
from routing.history.erasure import EndUser, erase_end_user
from tests.interns.farm import Farm

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NOW = datetime.now(UTC)


def converse(farm: Farm, name: str) -> ChatSession:
    """A turn that ended and a question that was asked in it."""
    intern = farm.row(farm.new()["id"])
    session = ChatSession.objects.create(intern=intern, session_id=name, created_at=NOW)
    run = ChatRun.objects.create(
        intern=intern,
        session=session,
        state="completed",
        started_at=NOW,
        ended_at=NOW,
        usage={"total_tokens": 3},
    )
    ChatInteraction.objects.create(
        run=run,
        tool_call_id="c1",
        kind="permission",
        arguments={"command": f"mail {name}"},
        asked_at=NOW,
        deadline_at=NOW + timedelta(hours=1),
    )
    return session


@pytest.mark.parametrize("by_hash", [False, True])
def test_a_conversation_of_his_name_loses_it_and_what_it_asked(farm: Farm, by_hash: bool) -> None:
    hers, other = converse(farm, "alice"), converse(farm, "bob")
    account_id = hers.intern.workspace.account_id
    user = EndUser.from_name(account_id, "alice")

    erased = erase_end_user(EndUser(account_id, user.hash) if by_hash else user, by=SYSTEM)

    assert erased.sessions == 1
    hers.refresh_from_db()
    other.refresh_from_db()
    assert (hers.session_id, other.session_id) == (f"erased-{hers.pk}", "bob")
    asked = ChatInteraction.objects.order_by("pk").values_list("arguments", flat=True)
    assert list(asked) == [{}, {"command": "mail bob"}]
    assert ChatRun.objects.filter(usage={"total_tokens": 3}).count() == 2
    after: Any = AuditRecord.objects.get(object_type="end_user").after
    assert after["sessions"] == 1
