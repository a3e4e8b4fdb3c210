"""A ledger writer at work. This file is read before Django is set up."""

from tests.routing.ledger.conftest import commits, writer

__all__ = ["commits", "writer"]
