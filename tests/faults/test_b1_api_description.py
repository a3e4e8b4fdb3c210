"""B1: requests made from the OpenAPI description, valid ones and broken ones. Nothing fails, no
answer is one that the description does not tell of, and what breaks the schema is not accepted."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # It has no stubs.
from schemathesis import Case as AnyCase
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from routing.simulator.testing import SimulatedUpstream
from tests.faults.api_objects import NAMES_IN_BODIES, Objects
from tests.support.bed import Bed
from tests.support.catalogue import VECTORS, rewritten
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough

# The upstream's failures, and what is full or gone.
TOO_LARGE = 413
PASSED_ON = (502, 503, 524, 529)
CHECKS = [status_code_conformance, content_type_conformance]
STREAM = "text/event-stream"
INFERENCE = (
    *("/chat/completions", "/messages", "/messages/count_tokens", "/responses"),
    *("/alpha/decisions", "/systemone", "/embeddings"),
)
# Keys are ours to choose, and query parameters that nobody knows are ignored.
CONFIG = SchemathesisConfig.from_dict(
    {"generation": {"with-security-parameters": False, "allow-extra-parameters": False}}
)
# Gone for good, answers to a signature, and of interns none runs here, and none of them fetches.
NEVER_GOOD = {
    "POST /api/v1/credits/coinbase",
    "POST /api/v1/credits/payments",
    "POST /api/v1/interns/{intern_id}/suspend",
    "POST /api/v1/interns/{intern_id}/chat/completions",
    "POST /api/v1/interns/{intern_id}/fetch",
}
# Below these a management key is none, or sees little.
WITH_A_KEY = ("/api/v1/interns", "/api/v1/vault", "/api/v1/presets/")
# It takes half a second to make an inference body, and most others are made in no time.
SPENDING_ROUND = 4
# Some operations find a good body only after a few.
ROUNDS_MAX = 8
# Requests of one operation and kind, before it is the next one's turn: the simplest and others.
IN_A_ROW, IN_A_ROW_AT_NIGHT = 2, 4
Operation: TypeAlias = APIOperation[Any, Any, Any, Any]
Case: TypeAlias = AnyCase[Operation]


@dataclass
class Desk:
    """An account at a gateway, and what came of the requests made for it."""

    server: GatewayServer
    account: SeededAccount
    objects: Objects
    session: requests.Session
    document: dict[str, Any]
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)

    def send(self, case: Case, *, negative: bool) -> None:
        path = case.operation.path
        of_workspace = path.endswith(INFERENCE) or path.startswith(WITH_A_KEY)
        key = self.account.api_key if of_workspace else self.account.management_key
        response = case.call(
            base_url=self.server.root_url,
            session=self.session,
            headers={"Authorization": f"Bearer {key}"},
            timeout=30,
        )
        self.statuses[case.operation.label, response.status_code] += 1
        checks = [*CHECKS]
        if response.status_code not in PASSED_ON:
            checks.append(not_a_server_error)
        # What presets do not keep they do not look at. The check's
        # own list of refusals has none for a body that is too large, the right one here.
        looked_at = response.status_code != TOO_LARGE and "/presets/" not in path
        if negative and looked_at and not _leaves_out(response):
            checks.append(negative_data_rejection)
        if response.headers.get("content-type", [""])[0].startswith(STREAM):
            self._check_events(case, response)
        else:
            checks.append(response_schema_conformance)
        try:
            case.validate_response(response, checks=checks)
        except (FailureGroup, Failure) as failed:
            for each in getattr(failed, "exceptions", [failed]):
                self._note(case, response, each)

    def _check_events(self, case: Case, response: Response) -> None:
        """Each event of a stream against the description's schema of one."""
        told = case.operation.definition.raw["responses"]["200"]["content"][STREAM]["schema"]
        schema = {**told, "components": self.document["components"]}
        events = Draft202012Validator(schema)
        for line in response.text.splitlines():
            if line.startswith("data: {"):
                for error in events.iter_errors(json.loads(line.removeprefix("data: "))):
                    self._note(case, response, error)

    def _note(self, case: Case, response: Response, failure: Exception) -> None:
        status = response.status_code
        name = f"{case.operation.label}: {type(failure).__name__} ({status})"
        self.failures.setdefault(name, f"{failure}\n{case.as_curl_command()}\n{response.text}")

    def ours(self, operation: Operation) -> dict[str, Any]:
        """Names of things that are there, for an operation's path and its query."""
        names = {each.name for each in operation.path_parameters}
        path = self.objects.path_parameters(operation.path, names)
        return {"path_parameters": path, "query": self.objects.query(operation.path)}

    def put_ours(self, body: dict[str, Any]) -> None:
        """Things that are there in place of made-up ones of the same kind."""
        for name in body.keys() & NAMES_IN_BODIES:
            ours = self.objects.in_body(name)
            if isinstance(body[name], float | int if isinstance(ours, int) else type(ours)):
                body[name] = ours


@pytest.fixture(scope="module")
def desk(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("b1")
    catalogue = rewritten(simulator.url) + VECTORS
    with StartGateway(stores, folder) as starter, requests.Session() as session:
        server = starter.with_catalogue(catalogue, INTERNS_MAX_PER_MEMBER="10000")
        document = server.get("/api/v1/openapi.json").json()
        account = seed_account(server, credits_usd="100000")
        yield Desk(server, account, Objects(server, account), session, document)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "count", [1, pytest.param(100_000, marks=[pytest.mark.nightly, pytest.mark.timeout(7200)])]
)
def test_generated_requests_get_what_the_description_says(desk: Desk, count: int) -> None:
    schema = schemathesis.openapi.from_dict(desk.document, config=CONFIG)
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    wanted = {each.label for each in operations} - NEVER_GOOD
    good: set[str] = set()
    is_short = count == 1
    for number in range(ROUNDS_MAX if is_short else count):
        for operation in operations:
            is_done = is_short and number and operation.label in good | NEVER_GOOD
            is_dear = operation.path.endswith(INFERENCE) and number % SPENDING_ROUND
            if not (is_done or is_dear):
                _try_all(desk, operation, seed(number), is_short=is_short)
        good = {label for label, status in desk.statuses if status < 300}
        if desk.statuses.total() >= count and good >= wanted:
            break

    for asked, times in sorted(desk.statuses.items()):
        print(*asked, times)  # noqa: T201 - Pytest shows it when something failed.
    assert not desk.failures, "\n\n".join(
        f"{name}\n{text[:2000]}" for name, text in desk.failures.items()
    )
    # Not all is refused, or nothing would have been tried.
    assert good == wanted
    assert desk.server.manage("audit_ledger")["mismatches"] == []


def _leaves_out(response: Response) -> bool:
    """Whether a query has a value that stands for none (management reference 1)."""
    query = urlsplit(response.request.url or "").query
    return any(value in ("", "null") for _, value in parse_qsl(query, keep_blank_values=True))


def _try_all(
    desk: Desk, operation: Operation, seeded: Callable[[Any], Any], *, is_short: bool
) -> None:
    """Some requests about things that are there, some about made-up ones, some broken ones."""
    ours, in_a_row = desk.ours(operation), IN_A_ROW if is_short else IN_A_ROW_AT_NIGHT
    modes = [(GenerationMode.POSITIVE, ours)]
    if any(ours.values()):
        modes.append((GenerationMode.POSITIVE, {}))
    broken = {"path_parameters": ours["path_parameters"]}
    for mode, known in [*modes, (GenerationMode.NEGATIVE, broken)]:
        strategy = operation.as_strategy(mode, **known)
        # What takes neither parameters nor a body cannot be broken.
        with suppress(Unsatisfiable):
            negative = mode is GenerationMode.NEGATIVE
            seeded(_property_test(desk, strategy, negative=negative, in_a_row=in_a_row))()
    if body := desk.objects.good_body(operation.label):
        desk.send(operation.Case(body=body, media_type="application/json", **ours), negative=False)


def _property_test(
    desk: Desk, strategy: SearchStrategy[Case], *, negative: bool, in_a_row: int
) -> Callable[[], None]:
    @given(case=strategy)
    @settings(
        max_examples=in_a_row,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def try_one(case: Case) -> None:
        if not negative and isinstance(case.body, dict):
            desk.put_ours(case.body)
        desk.send(case, negative=negative)

    return try_one
