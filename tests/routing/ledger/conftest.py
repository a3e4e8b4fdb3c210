"""A writer at work. This file is read before Django is set up."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from routing.ledger.orders import Payer
    from routing.ledger.writer import LedgerWriter
    from tests.routing.ledger.sessions import Commits


@pytest.fixture
def payer(transactional_db: None) -> "Payer":
    """An account with a dollar and one key, without any limit."""
    from tests.routing.ledger.books import USD, new_payer

    return new_payer(USD)


@pytest.fixture
def commits() -> "Commits":
    """The commits of `writer`, to hold up or to break."""
    from tests.routing.ledger.sessions import Commits

    return Commits()


@pytest.fixture
def writer(transactional_db: None, commits: "Commits") -> "Iterator[LedgerWriter]":
    """A writer of the test's own; the books must agree behind it."""
    from tests.routing.ledger.books import assert_books_agree, running_writer

    with running_writer(commits.open) as writer:
        yield writer
    assert_books_agree()
