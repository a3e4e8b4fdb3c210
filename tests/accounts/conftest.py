"""What the tests of accounts begin with. This file is read before Django is set up."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from accounts.models import Account, ApiKey, Workspace
    from tests.accounts.office import Office
    from tests.accounts.own_credentials import Providers
    from tests.support.management import Manager


@pytest.fixture
def account(db: None) -> "Account":
    from accounts.services.organization import open_account

    return open_account(name="acme")


@pytest.fixture
def workspace(account: "Account") -> "Workspace":
    return account.workspaces.get()


@pytest.fixture
def key(account: "Account", workspace: "Workspace") -> "ApiKey":
    from accounts.services.keys import create_key

    return create_key(account=account, name="first", workspace=workspace)[0]


@pytest.fixture
def mine(db: None) -> "Manager":
    from tests.support.management import manager

    return manager("mine")


@pytest.fixture
def office(db: None) -> "Office":
    from tests.accounts.office import open_office

    return open_office()


@pytest.fixture
def providers() -> "Iterator[Providers]":
    from tests.accounts.own_credentials import asked_providers

    with asked_providers() as providers:
        yield providers


@pytest.fixture
def loaded_catalogue(db: None) -> Iterator[None]:
    """The conformance catalogue says which models and providers there are."""
    from routing.catalogue.files import parse
    from routing.catalogue.load import load_catalogue
    from routing.catalogue.snapshot import catalogue
    from tests.support.catalogue import CONFORMANCE

    assert load_catalogue(parse(CONFORMANCE.read_text(encoding="utf-8")))["errors"] == []
    catalogue.forget()
    catalogue.current()
    yield
    catalogue.forget()
