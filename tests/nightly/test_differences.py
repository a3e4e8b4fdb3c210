"""What the replay of recorded answers lets pass is told to whoever reads the docs."""

from pathlib import Path

from tests.nightly.differences import REASONS

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "translation.md"


def test_every_difference_is_documented() -> None:
    told = " ".join(PAGE.read_text(encoding="utf-8").split())

    assert [reason.text for reason in REASONS if reason.text not in told] == []
