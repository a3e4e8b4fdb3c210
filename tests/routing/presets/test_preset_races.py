"""Several who write one preset at the same time, and one who sits on its row."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from accounts.models import Account
from accounts.services.organization import open_account
from accounts.services.records import SYSTEM
from gateway.http.errors import GatewayError
from routing.presets import services
from routing.presets.models import Preset, PresetVersion
from routing.presets.read import PresetScope
from routing.presets.schema import PresetContent
from routing.presets.services import PresetConflict, save_version

pytestmark = [pytest.mark.django_db(transaction=True)]
CONTENT = PresetContent({"temperature": 0.5}, "")
WRITERS, ROUNDS, PATIENCE_S = 6, 10, 120.0


@pytest.fixture
def account() -> Account:
    return open_account(name="mine")


def save_one(account: Account, slug: str = "old") -> Preset:
    scope = PresetScope(account.pk, None)
    return save_version(scope=scope, slug=slug, content=CONTENT, creator=None, by=SYSTEM)


def together(account: Account, slug: str) -> list[int]:
    """The versions that all writers made, who began at the same moment; 0 for a conflict."""
    start = threading.Barrier(WRITERS)

    def one() -> int:
        try:
            start.wait(PATIENCE_S)
            return save_one(account, slug).designated_version.version
        except PresetConflict:
            return 0
        finally:
            connection.close()

    with ThreadPoolExecutor(WRITERS) as pool:
        return sorted(each.result() for each in [pool.submit(one) for _ in range(WRITERS)])


def numbers(slug: str) -> list[int]:
    versions = PresetVersion.objects.filter(preset__slug=slug)
    return list(versions.order_by("version").values_list("version", flat=True))


@pytest.mark.both
def test_many_who_make_one_slug_make_one_preset(account: Account) -> None:
    told: Counter[int] = Counter()
    for number in range(ROUNDS):
        slug = f"new-{number}"
        got = together(account, slug)
        made = [each for each in got if each]

        assert made == list(range(1, len(made) + 1))
        assert numbers(slug) == made
        assert Preset.objects.filter(slug=slug).count() == 1
        told.update(got)
    assert told[1] == ROUNDS


@pytest.mark.both
def test_many_who_add_a_version_each_get_one(account: Account) -> None:
    save_one(account)

    for _ in range(3):
        before = max(numbers("old"))
        got = together(account, "old")
        assert got == list(range(before + 1, before + WRITERS + 1))

    preset = Preset.objects.get(slug="old")
    assert preset.designated_version.version == preset.latest_version == max(numbers("old"))


def test_whoever_waits_too_long_for_the_row_is_told(account: Account) -> None:
    save_one(account)
    taken, done = threading.Event(), threading.Event()

    def sit() -> None:
        try:
            with transaction.atomic():
                list(Preset.objects.select_for_update())
                taken.set()
                done.wait(PATIENCE_S)
        finally:
            connection.close()

    sitting = threading.Thread(target=sit)
    sitting.start()
    try:
        assert taken.wait(PATIENCE_S)
        with pytest.raises(PresetConflict, match=r"^Resource conflict\. Please try again later\.$"):
            save_one(account)
    finally:
        done.set()
        sitting.join(PATIENCE_S)
    assert numbers("old") == [1]


@pytest.mark.both
def test_what_only_a_bug_can_reach_is_no_conflict(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that breaks off is no lost race."""

    def broken(*_: object) -> None:
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(services, "_find_row", broken)

    with pytest.raises(OperationalError) as raised:
        save_one(account)
    assert not isinstance(raised.value, GatewayError | IntegrityError)
