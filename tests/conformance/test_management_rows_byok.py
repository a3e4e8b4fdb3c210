"""Row 77 of the management reference's section 19: credentials that a team brings."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from routing import ports
from tests.conformance.desk import Desk
from tests.conformance.own_credentials import ask, fingerprint
from tests.conformance.test_management_rows import error_of
from tests.gateway.outbound.raw_upstream import Peer, RawUpstream
from tests.support.server import as_json

pytestmark = pytest.mark.both
KEY = "sk-abcd1234efgh"
NEW = {"provider": "gamma", "key": KEY}


@pytest.fixture
def desk(own_desk: Desk) -> Desk:
    return own_desk


def check_tried(desk: Desk) -> None:
    """The provider was asked for its models with the credential."""
    (tried,) = desk.upstream.requests("gamma")
    assert (tried["method"], tried["path"]) == ("GET", "/gamma/v1/models")
    assert tried["headers"]["authorization"] == fingerprint(KEY)


def test_a_credential_is_brought_and_not_shown(desk: Desk) -> None:
    answer = ask(desk, "POST", body=NEW)

    assert answer.status_code == 201, answer.text
    data = as_json(answer)["data"]
    assert "key" not in data
    assert KEY not in answer.text + desk.server.log()
    assert data["label"] == "sk-...efgh"
    check_tried(desk)
    assert as_json(ask(desk, "GET", f"/{data['id']}"))["data"] == data


class Strict:
    """A provider that answers whatever it is asked with one status."""

    status = 200

    def __call__(self, peer: Peer) -> None:
        peer.read_request()
        head = f"HTTP/1.1 {self.status} X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
        peer.send(head.encode())


def test_a_provider_is_believed_in_what_it_refuses_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with RawUpstream(Strict()) as strict:
        urls = {"strict": f"http://127.0.0.1:{strict.port}/v1", "gone": "http://127.0.0.1:9/v1"}
        known = {slug: SimpleNamespace(base_url=url, kind="openai") for slug, url in urls.items()}
        snapshot = SimpleNamespace(providers=known)
        monkeypatch.setattr(ports, "_snapshot", lambda: snapshot)
        told = {}
        for status in (200, 401, 403, 404, 429, 500):
            monkeypatch.setattr(Strict, "status", status)
            told[status] = ports.AccountPorts().try_key("strict", KEY)
        gone = [ports.AccountPorts().try_key(slug, KEY).verdict for slug in ("gone", "nobody")]

    assert gone == ["untold", "untold"]
    verdicts = ["accepted", "refused", "refused", "untold", "untold", "untold"]
    assert [trial.verdict for trial in told.values()] == verdicts


def test_no_keys_are_not_all_keys(desk: Desk) -> None:
    error = error_of(ask(desk, "POST", body=NEW | {"allowed_api_key_hashes": []}), 400)

    assert [issue["path"] for issue in error["metadata"]["issues"]] == ["allowed_api_key_hashes"]
    by_inference = desk.server.post("/api/v1/byok", key=desk.account.api_key, json=NEW)
    message = error_of(by_inference, 403)["message"]
    assert message == "Only management keys can perform this operation"
    assert desk.upstream.requests() == []


def test_many_at_once_get_a_place_each(desk: Desk) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(desk, "POST", body=NEW), range(12)))

    assert {answer.status_code for answer in answers} == {201}
    places = [as_json(answer)["data"]["sort_order"] for answer in answers]
    assert sorted(places) == list(range(12))
    path = f"/{as_json(answers[0])['data']['id']}"
    with ThreadPoolExecutor(8) as pool:
        changed = list(pool.map(lambda n: ask(desk, "PATCH", path, {"name": str(n)}), range(12)))
    assert {answer.status_code for answer in changed} <= {200, 409}
    won = {as_json(answer)["data"]["name"] for answer in changed if answer.status_code == 200}
    assert as_json(ask(desk, "GET", path))["data"]["name"] in won
