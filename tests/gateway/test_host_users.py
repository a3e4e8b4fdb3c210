"""Users of the host for what is not trusted: each lent once at a time, or refused in one line."""

from pathlib import Path
from typing import Any

import pytest

from gateway.host_users import Lease, NoUser, for_interns, why_none


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> None:
    settings.GATEWAY_HOME = tmp_path
    settings.SANDBOX_UIDS = range(100_000, 100_008)


def test_a_user_is_lent_once_at_a_time_and_is_no_interns() -> None:
    leases = [Lease() for _ in range(3)]
    assert len({lease.uid for lease in leases}) == 3
    assert not {lease.uid for lease in leases} & set(for_interns())
    # One is left for trials.
    with pytest.raises(NoUser, match="all users of SANDBOX_UIDS are in use"):
        Lease()
    leases[1].close()
    leases.append(Lease())
    assert leases[3].uid == leases[1].uid
    for lease in leases:
        lease.close()


def test_users_that_a_container_does_not_have_are_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = tmp_path / "map"
    table.write_text("         0     100000      65536\n")
    monkeypatch.setattr("gateway.host_users._MAPS", (str(table),))
    assert why_none(range(1, 65_536)) == ""
    assert why_none(range(60_000, 65_537)).startswith("SANDBOX_UIDS 60000-65536 is outside of")
