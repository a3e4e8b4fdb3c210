"""A server of one's own, added while the gateway runs. It serves nothing without a price, and with
one what it was found to take, decisions among it."""

from typing import Any

from tests.conformance.deciding import NOUL, STATE, SYSTEMONE
from tests.conformance.desk import CHAT, HELLO, PATIENCE_S, Desk
from tests.support.server import as_json

MODEL = "local/llama"
ASKED: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HELLO},
    "/api/v1/messages": {"messages": HELLO, "max_tokens": 5},
    "/api/v1/responses": {"input": "Hello there"},
    SYSTEMONE: {"state": STATE, "questions": {"q": NOUL}},
}


def test_a_model_is_served_from_its_price_on(equipped_desk: Desk) -> None:
    server, account = equipped_desk.server, equipped_desk.account
    simulator = equipped_desk.upstream

    def ask(path: str) -> Any:
        body = {"model": MODEL, **ASKED[path]}
        return server.post(path, key=account.api_key, json=body)

    def has_answer(status: int, text: str = "") -> bool:
        answer = ask(CHAT)
        return answer.status_code == status and text in answer.text

    own = ("add_provider", "local", "--base-url", f"{simulator.url}/gamma/v1", "--no-input")
    server.manage(*own, "--model", "llama")
    server.wait_until(lambda: has_answer(404, "has no price yet"), within_s=PATIENCE_S)
    for path in ASKED:
        answer = ask(path)
        assert answer.status_code == 404, answer.text
        assert f"{MODEL} has no price yet" in as_json(answer)["error"]["message"]

    added = server.manage(*own, "--model", "llama", "--free")

    assert set(added["probed"][MODEL].values()) == {"yes"}
    server.wait_until(lambda: has_answer(200), within_s=PATIENCE_S)
    for path in ASKED:
        assert ask(path).status_code == 200
    assert simulator.requests("gamma")[-1]["body"]["logprobs"] is True
