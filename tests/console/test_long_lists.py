"""Lists longer than a page: the next one, and all rows as CSV."""

import csv
import io
import re
from collections.abc import Callable

import pytest
from django.test import RequestFactory
from django.urls import reverse

from accounts.models import ApiKey, GuardrailKey, Membership
from accounts.services.books.credits import add_credits
from accounts.services.keys import create_key
from accounts.services.organization import admit_member
from console.listing import PAGE_ROWS, Filter, Listing, has_words, is_value
from console.queries.keys import PAGE_ROWS as KEYS
from console.queries.workspaces import PEOPLE_ROWS as PEOPLE
from console.table import Column
from console.views.presets import PAGE_ROWS as PRESETS
from tests.console.people import Team, make_team
from tests.console.things import make_guardrail, make_model, make_provider, save_preset

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def make_keys(team: Team) -> None:
    workspace = team.led
    for number in range(KEYS + 1):
        create_key(
            account=team.account,
            name=f"row-{number}",
            workspace=workspace,
            creator=team.people["lead"],
        )


def make_people(team: Team) -> None:
    for number in range(PEOPLE + 1):
        admit_member(account=team.account, username=f"row-{number}", role=Membership.Role.MEMBER)


def make_presets(team: Team) -> None:
    workspace = team.led
    for number in range(PRESETS + 1):
        save_preset(workspace, f"row-{number}")


def make_models(team: Team) -> None:
    provider = make_provider("one")
    for number in range(PAGE_ROWS + 1):
        make_model(f"acme/row-{number}", provider, created=number)


def make_payments(team: Team) -> None:
    for number in range(PAGE_ROWS + 1):
        add_credits(account=team.account, amount_nano=10, source="x", source_ref=f"row-{number}")


@pytest.mark.parametrize(
    ("name", "fill", "rows"),
    [
        ("keys", make_keys, KEYS + 1),
        ("people", make_people, PEOPLE + 1),
        ("presets", make_presets, PRESETS + 1),
        ("models", make_models, PAGE_ROWS + 1),
        ("credits", make_payments, PAGE_ROWS + 1),
    ],
)
def test_every_row_is_on_a_page_and_in_the_csv(
    name: str, fill: Callable[[Team], None], rows: int
) -> None:
    team = make_team("acme")
    fill(team)
    client, path = team.client("admin"), reverse(f"console:{name}")

    lines = list(csv.reader(io.StringIO(client.get(path, {"csv": "1"}).text)))
    found: set[str] = set()
    more: re.Match[str] | None = re.match("()", "")
    while more:
        text = client.get(path + more[1].replace("&amp;", "&")).text
        found |= set(re.findall(r"row-\d+", text))
        more = re.search(r'rel="next" href="([^"]+)"', text)

    assert sum("row-" in "".join(line) for line in lines) == rows
    assert found == {f"row-{number}" for number in range(rows)}


FILES = {
    "Changes": ("audit", "1"),
    "Channels": ("alerts", "1"),
    "Decisions": ("decisions", "1"),
    "Destinations": ("destinations", "1"),
    "Events": ("alerts", "events"),
    "Guardrails": ("guardrails", "1"),
    "Interns": ("interns", "1"),
    "Logging": ("logging", "1"),
    "Messages": ("alerts", "messages"),
    "Open holds": ("credits", "holds"),
    "Providers": ("providers", "1"),
    "Questions": ("decisions", "questions"),
    "Sessions": ("mfa_index", "sessions"),
    "Statement": ("credits", "statement"),
    "Workspaces": ("workspaces", "1"),
}


def test_every_list_is_a_file_too(team: Team) -> None:
    client = team.client("admin")
    for caption, (name, csv_name) in FILES.items():
        path = reverse(name if name == "mfa_index" else f"console:{name}")
        answer = client.get(path, {"csv": csv_name, "as": "list"})

        file = caption.lower().replace(" ", "-")
        assert answer.headers["Content-Disposition"] == f'attachment; filename="{file}.csv"'
        assert (caption, "<" in answer.text) == (caption, False)


def test_a_list_is_filtered_sorted_and_cut_as_the_address_says() -> None:
    columns = (
        Column("Number", lambda row: row, "count", order="number"),
        Column("Change", lambda row: "<button>", "html"),
    )
    filters = (
        Filter("text", "Text", has_words(str)),
        Filter("odd", "Odd", is_value(lambda row: row % 2), [("1", "Yes"), ("0", "No")]),
    )

    def load(**query: str) -> Listing[int]:
        request = RequestFactory().get("/", query)
        listing = Listing[int](
            request, columns, "Rows", filters=filters, order="number", name="rows"
        )
        listing.load_whole(range(200))
        return listing

    assert load().rows == list(range(PAGE_ROWS))
    assert load(rows_order="-number", rows_cursor="190").rows == list(reversed(range(10)))
    assert load(order="-number", cursor="190").rows == list(range(PAGE_ROWS))
    found = load(rows_text="19", rows_odd="1", rows_order="none", period="7d")
    assert found.rows == [19, 119, 191, 193, 195, 197, 199]
    assert (found.other_parameters, found.path_without_search) == (
        [("rows_order", "none"), ("period", "7d")],
        "?rows_order=none&period=7d",
    )
    assert not load(rows_text="none").is_empty
    file = load(csv="rows", rows_text="7").respond().text
    assert file.splitlines()[:2] == ["Number", "7"]


def test_keys_past_the_first_two_hundred_are_assigned_and_found() -> None:
    team = make_team("acme")
    guardrail, workspace = make_guardrail(team.led, "no secrets"), team.led
    rows = [
        ApiKey(
            account=team.account, workspace=workspace, name=f"a-{number:03}", label="sk",
            hash=f"hash-{number}",
        )
        for number in range(201)
    ]  # fmt: skip
    ApiKey.objects.bulk_create(rows)
    last = ApiKey.objects.create(
        account=team.account, workspace=workspace, name="zz-last", label="sk", hash="hash-last"
    )
    client, path = team.client("lead"), reverse("console:guardrail", args=[guardrail.pk])

    page = client.get(path).text
    assert ("zz-last" in page, "Search for the others by name" in page) == (False, True)
    assert "zz-last" in client.get(path, {"holder": "zz"}).text
    assign = reverse("console:assign_guardrail", args=[guardrail.pk])
    assert client.post(assign, {"to": "add", "key": last.hash}).status_code == 302
    assert GuardrailKey.objects.get(guardrail=guardrail).api_key == last
    assert client.post(assign, {"to": "remove", "key": last.hash}).status_code == 302
    assert not GuardrailKey.objects.filter(guardrail=guardrail).exists()

    requests = client.get(reverse("console:requests"), {"key": str(last.pk)}).text
    assert f'<option value="{last.pk}" selected>zz-last</option>' in requests
    strange = make_team("theirs").keys["own"]
    assert strange.name not in client.get(reverse("console:requests"), {"key": strange.pk}).text
