from typing import Any

import pytest
from django.test import Client

from accounts.models import Hold, LedgerEntry, SpendCounter
from routing.metering.models import Generation
from tests.support.operations import fill, page

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.mark.parametrize("model", [LedgerEntry, Hold, SpendCounter, Generation])
def test_nobody_writes_the_books_by_hand(admin_client: Client, model: type[Any]) -> None:
    fill(1)
    before = list(model.objects.values())
    row = model.objects.first()

    for kind, *arguments in (("add",), ("change", row.pk), ("delete", row.pk)):
        response = admin_client.post(page(model, kind, *arguments), {"post": "yes"})
        assert response.status_code == 403
    action = {"action": "delete_selected", "_selected_action": [str(row.pk)], "post": "yes"}
    admin_client.post(page(model), action)

    assert list(model.objects.values()) == before


@pytest.mark.parametrize("field", ["generation_id", "source_ref"])
def test_an_entry_is_found_by_generation_and_reference(admin_client: Client, field: str) -> None:
    fill(2)
    wanted = LedgerEntry.objects.filter(kind="usage").latest("id")

    found = admin_client.get(page(LedgerEntry), {"q": getattr(wanted, field)})

    assert [entry.pk for entry in found.context["cl"].result_list] == [wanted.pk]


def test_the_books_of_one_key_are_a_click_away(admin_client: Client) -> None:
    fill(2)
    entry = LedgerEntry.objects.filter(kind="usage").latest("id")

    for model in (LedgerEntry, Hold, Generation):
        shown = admin_client.get(page(model), {"api_key__id__exact": str(entry.api_key_id)})
        assert len(shown.context["cl"].result_list) == 1
