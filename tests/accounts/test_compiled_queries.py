"""Querysets whose SQL is made once find what the same ones find that are made anew."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.db.models import Exists, OuterRef, QuerySet
from django.test.utils import CaptureQueriesContext

from accounts.models import ApiKey, Membership
from accounts.services.keys import create_key
from gateway.database.compiled_queries import CompiledQuery
from tests.support.management import manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def key(db: None) -> ApiKey:
    """One of several, with and without a creator."""
    mine = manager("mine")
    workspace = mine.workspace("team")
    made = [
        create_key(account=mine.account, name=name, workspace=workspace, creator=creator)[0]
        for name, creator in (("first", mine.admin), ("second", None), ("third", mine.admin))
    ]
    return made[1]


def of_workspace(workspace: UUID, least: int, name: str) -> QuerySet[Any]:
    member = Membership.objects.filter(account=OuterRef("account"), user=OuterRef("creator"))
    return (
        ApiKey.objects.filter(workspace=workspace, pk__gte=least)
        .exclude(name=name)
        .select_related("account", "workspace", "creator")
        .annotate(stays=Exists(member))
        .order_by("pk")
    )


prepared: CompiledQuery[ApiKey] = CompiledQuery(of_workspace, workspace=UUID, least=int, name=str)


def facts(key: Any) -> tuple[Any, ...]:
    of_key = {field.attname: getattr(key, field.attname) for field in ApiKey._meta.concrete_fields}
    others = [key.account, key.workspace, key.creator]
    rows = [None if other is None else other.__dict__ | {"_state": None} for other in others]
    return of_key, key.stays, rows


def test_it_finds_what_the_queryset_finds(key: ApiKey) -> None:
    for workspace, least, name in (
        (key.workspace_id, 0, "other"),
        (key.workspace_id, key.pk, "\x01name\x01"),
        (key.workspace_id, key.pk + 1, ""),
        (uuid4(), 0, ""),
        (key.workspace_id, 0, key.name),
    ):
        given: Any = {"workspace": workspace, "least": least, "name": name}
        for _ in range(2):
            found = prepared(**given)
            assert list(map(facts, found)) == list(map(facts, of_workspace(**given)))
    # None is equal to nothing.
    assert ApiKey.objects.filter(workspace=None).exists()
    assert prepared(workspace=None, least=0, name="other") == []


def test_what_is_found_needs_no_further_query_and_a_value_a_place(key: ApiKey) -> None:
    with CaptureQueriesContext(connection) as queries:
        [found] = prepared(workspace=key.workspace_id, least=key.pk, name="third")
        assert found.workspace is not None
        assert found.account.pk == key.account_id
    assert len(queries) == 1
    unused: CompiledQuery[ApiKey] = CompiledQuery(
        lambda key, other: ApiKey.objects.filter(pk=key), key=int, other=str
    )
    with pytest.raises(ValueError, match="no place for other"):
        unused(key=1, other="x")
