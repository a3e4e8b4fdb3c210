"""An account with its workspace and a key. This file is read before Django is set up."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from accounts.models import Account, ApiKey, Workspace


@pytest.fixture
def account(db: None) -> "Account":
    from accounts.services.accounts import open_account

    return open_account(name="acme")


@pytest.fixture
def workspace(account: "Account") -> "Workspace":
    return account.workspaces.get()


@pytest.fixture
def key(account: "Account", workspace: "Workspace") -> "ApiKey":
    from accounts.services.keys import create_key

    return create_key(account=account, name="first", workspace=workspace)[0]
