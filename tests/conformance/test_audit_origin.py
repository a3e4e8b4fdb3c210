"""Audit records say where a change came from, through a whole gateway."""

import pytest
from pytest_django import DjangoDbBlocker

from accounts.models import AuditRecord
from tests.conformance.desk import Desk
from tests.support.orm import pointed_at
from tests.support.server import as_json

pytestmark = pytest.mark.both


def test_a_change_is_recorded_with_the_address_and_the_agent_of_its_request(
    own_desk: Desk, django_db_blocker: DjangoDbBlocker
) -> None:
    made = own_desk.server.post(
        "/api/v1/keys",
        key=own_desk.account.management_key,
        json={"name": "k"},
        headers={"User-Agent": "console/7 " + "x" * 300},
    )
    assert made.status_code == 201, made.text
    body, agent = {"code": "x"}, {"User-Agent": "app/1"}
    refused = own_desk.server.post("/api/v1/auth/keys", json=body, headers=agent)
    assert refused.status_code == 403, refused.text
    own_desk.server.manage("seed_keys", "--account", "another", "--workspace", "main")

    with pointed_at(own_desk.server.env["DATABASE_URL"], django_db_blocker):
        rows = AuditRecord.objects.filter(object_type="key").order_by("-pk")
        by_request = rows.exclude(management_key=None).get(after__name="k")
        by_command = rows.exclude(command="").first()
        of_code = AuditRecord.objects.get(object_type="authorization_code")
    assert as_json(made)["data"]["name"] == "k"
    assert by_request.address == "127.0.0.1"
    assert by_request.agent == ("console/7 " + "x" * 300)[:200]
    assert (of_code.action, of_code.address, of_code.agent) == (
        "exchange refused",
        "127.0.0.1",
        "app/1",
    )
    assert by_command is not None
    assert (by_command.address, by_command.agent) == (None, None)
