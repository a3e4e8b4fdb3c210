"""The commands that move money and make keys: one JSON object, honest exit codes."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from accounts.models import Account, ApiKey, LedgerEntry, Membership
from accounts.services.accounts import open_account

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def run(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command(*arguments, "--json", stdout=out)
    told: dict[str, Any] = json.loads(out.getvalue())
    return told


def refused(*arguments: str) -> CommandError:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    return caught.value


def credit(*options: str) -> tuple[str, ...]:
    return ("credits_add", "--account", "payer", *options)


def test_a_purchase_told_twice_counts_once() -> None:
    open_account(name="payer")

    first = run(*credit("--usd", "5.25", "--ref", "p-1"))
    second = run(*credit("--usd", "5.25", "--ref", "p-1"))

    assert (first["created"], second["created"]) == (True, False)
    assert first["entry_id"] == second["entry_id"]
    assert second["total_credits"] == 5.25
    assert LedgerEntry.objects.get().amount_nano == 5_250_000_000


REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("--usd", "6", "--ref", "p-1"), "names another payment"),
    (("--usd", "0", "--ref", "p-2"), "more than zero"),
]


@pytest.mark.parametrize(("options", "text"), REFUSED)
def test_a_purchase_that_cannot_be_is_refused_with_1(options: tuple[str, ...], text: str) -> None:
    open_account(name="payer")
    run(*credit("--usd", "5", "--ref", "p-1"))

    error = refused(*credit(*options))

    assert error.returncode == 1
    assert text in str(error)
    assert Account.objects.get().total_credits_nano == 5_000_000_000


def test_another_account_s_payment_is_not_booked_again() -> None:
    open_account(name="payer")
    open_account(name="other")
    run(*credit("--usd", "5", "--ref", "p-1"))

    error = refused("credits_add", "--account", "other", "--usd", "5", "--ref", "p-1")

    assert error.returncode == 1
    assert Account.objects.get(name="other").total_credits_nano == 0


def test_an_unknown_account_is_refused_with_1() -> None:
    assert refused(*credit("--usd", "5", "--ref", "x")).returncode == 1
    assert refused("create_management_key", "--account", "nobody").returncode == 1


@pytest.mark.parametrize("usd", ["-5", "five", "0.0000000001", "1e10", "NaN"])
def test_an_odd_amount_is_a_mistake_of_usage(usd: str) -> None:
    open_account(name="payer")

    assert "--usd" in str(refused(*credit(f"--usd={usd}", "--ref", "x")))
    assert not LedgerEntry.objects.exists()


def test_seeding_makes_everything_once_and_shows_keys_once() -> None:
    seeded = ("seed_keys", "--account", "a", "--workspace", "main", "--credits", "5")

    first, second = run(*seeded), run(*seeded)

    assert first["created"]
    assert not second["created"]
    assert (second["api_key"], second["management_key"]) == (None, None)
    assert first["api_key"].startswith("sk-rt-v1-")
    assert first["api_key_hash"] == second["api_key_hash"]
    assert second["total_credits"] == 5
    assert ApiKey.objects.count() == 2
    assert Membership.objects.get().role == Membership.Role.ADMIN


def test_seeding_with_other_credits_or_without_a_name_is_refused() -> None:
    seed = ("seed_keys", "--workspace", "main", "--account")
    run(*seed, "acme", "--credits", "5")

    other, nameless = refused(*seed, "acme", "--credits", "6"), refused(*seed, " ")

    assert (other.returncode, nameless.returncode) == (1, 2)
    assert "credits_add adds more" in str(other)


def test_rotating_gives_both_keys_new_strings() -> None:
    seeded = ("seed_keys", "--account", "a", "--workspace", "main")
    first = run(*seeded)

    second = run(*seeded, "--rotate")

    assert second["api_key"] not in (None, first["api_key"])
    assert second["management_key"] not in (None, first["management_key"])
    assert ApiKey.objects.count() == 2


def test_a_management_key_is_in_no_workspace() -> None:
    open_account(name="a")

    told = run("create_management_key", "--account", "a", "--name", "m")

    key = ApiKey.objects.get(hash=told["key_hash"])
    assert key.is_management
    assert (key.workspace, key.name) == (None, "m")


def test_the_entries_of_an_unknown_generation_are_none() -> None:
    assert run("ledger", "--generation", "gen-nope") == {"entries": []}
