"""A team of each test's own. This file is read before Django is set up."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.interns.vault.team import Team


@pytest.fixture
def team(db: None) -> "Team":
    from tests.interns.vault.team import open_team

    return open_team()
