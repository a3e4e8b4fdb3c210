import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from routing.catalogue.models import Endpoint, Model, Provider
from routing.catalogue.snapshot import build_snapshot
from routing.providers import discovery
from routing.providers.discovery import KNOWN, _our_id, list_configured_providers
from tests.routing.catalogue.conftest import run
from tests.routing.catalogue.scripted_provider import Handler, ScriptedProvider, able
from tests.support.local_site import Running

pytestmark = pytest.mark.django_db
KEY = "sk-a-real-looking-key"


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with Running(ScriptedProvider, Handler) as script:
        yield script


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)


def standing_for(slug: str, provider: ScriptedProvider, patch: pytest.MonkeyPatch) -> None:
    """The scripted provider stands where the well-known one would."""
    patch.setenv(KNOWN[slug].key_env, KEY)
    patch.setitem(KNOWN, slug, replace(KNOWN[slug], base_url=provider.base_url))


@pytest.fixture
def openai(provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> ScriptedProvider:
    standing_for("openai", provider, monkeypatch)
    return provider


def add(*arguments: str) -> Any:
    """What the command tells; with an error where its status is not 0."""
    status, out, _ = run("add_provider", *arguments, "--no-input", "--json")
    told = json.loads(out)
    assert (status != 0) == ("error" in told), told
    return told


def own(provider: ScriptedProvider, *arguments: str) -> Any:
    """The same for a server of the operator's own."""
    return add("local", "--base-url", provider.base_url, *arguments)


def test_priced_models_are_enabled_and_the_others_stored_disabled(openai: ScriptedProvider) -> None:
    openai.lists("gpt-4o", "text-embedding-3-small", "gpt-unheard-of", "tts-1")

    added = add("openai")

    assert (added["enabled"], added["unpriced"]) == (["openai/gpt-4o"], ["openai/gpt-unheard-of"])
    assert added["skipped"] == ["openai/text-embedding-3-small", "openai/tts-1"]
    # What its models take is known.
    assert openai.chats == []
    [(path, headers)] = openai.seen
    assert (path, headers["Authorization"]) == ("/v1/models", f"Bearer {KEY}")
    seen = build_snapshot()
    assert [model.id for model in seen.listing] == ["openai/gpt-4o"]
    endpoint = seen.models["openai/gpt-4o"].endpoints[0]
    assert (endpoint.upstream_model, endpoint.tag) == ("gpt-4o", "openai")
    assert endpoint.provider.credential == KEY
    assert {"temperature", "tools"} <= endpoint.supported_parameters
    assert not seen.models["openai/gpt-unheard-of"].visible


def test_asking_twice_changes_nothing_of_the_operators_hand_but_takes_a_new_key(
    openai: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    openai.lists("gpt-4o", "gpt-unheard-of")
    add("openai")
    Model.objects.update(visible=False, name="Mine")
    Endpoint.objects.filter(upstream_model="gpt-4o").update(pricing={"prompt": "1"})
    sealed = Provider.objects.get().credential_sealed

    added = add("openai")

    assert (added["enabled"], added["kept"]) == ([], ["openai/gpt-4o"])
    assert not Model.objects.filter(visible=True).exists()
    assert set(Model.objects.values_list("name", flat=True)) == {"Mine"}
    assert Endpoint.objects.get(upstream_model="gpt-4o").pricing == {"prompt": "1"}
    assert Provider.objects.get().credential_sealed == sealed

    monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
    add("openai")
    assert Provider.objects.get().credential() == "sk-another"


def test_a_server_of_ones_own_needs_no_key_and_takes_a_given_price(
    provider: ScriptedProvider,
) -> None:
    provider.lists({"id": "llama3:8b", "max_model_len": 8192}, "org/model")

    assert own(provider)["unpriced"] == ["local/llama3:8b", "org/model"]
    [(path, headers)] = provider.seen
    assert (path, headers["Authorization"]) == ("/v1/models", None)
    # Nobody can call them yet, so nobody asks what they take.
    assert provider.chats == []
    assert own(provider, "--price", "0/0.5")["enabled"] == ["local/llama3:8b", "org/model"]

    model = build_snapshot().models["local/llama3:8b"]
    assert (model.visible, model.context_length) == (True, 8192)
    assert model.endpoints[0].pricing == {"prompt": "0", "completion": "0.0000005"}


def test_what_is_no_chat_model_is_skipped(provider: ScriptedProvider) -> None:
    provider.lists(
        {"id": "a/embedder", "type": "embedding"},
        {"id": "a/ocr", "capabilities": {"completion_chat": False}},
        {"id": "a/painter", "architecture": {"output_modalities": ["image"]}},
        {"id": "a/chat", "architecture": {"input_modalities": ["image", "text", "smell"]}},
        *("nomic-embed-text:v1.5", "bge-m3", "org/e5-large", "all-minilm", "x/Qwen3-Reranker-8B"),
        {"id": "a/embedded", "type": "llm"},
    )

    added = own(provider, "--price", "1/1")

    assert added["skipped"][:3] == ["a/embedder", "a/ocr", "a/painter"]
    assert len(added["skipped"]) == 8
    assert added["enabled"] == ["a/chat", "a/embedded"]
    assert build_snapshot().models["a/chat"].input_modalities == ("text", "image")


def test_a_bare_list_is_a_list_too(provider: ScriptedProvider) -> None:
    provider.body = b'[{"id": "a/b"}, {"no": "id"}, 5]'

    assert own(provider)["unpriced"] == ["a/b"]


ODD_ANSWERS: list[tuple[int, bytes, str]] = [
    (401, b"{}", "refuses the key (status 401)"),
    (500, b"boom", "answered 500: boom"),
    (302, b"", "answered 302"),
    (200, b"<html>", "answered without JSON"),
    (200, b'{"data": []}', "lists no models"),
    (200, b"[" * 10_000, "answered without JSON"),
]


def test_a_provider_that_does_not_answer_like_one_leaves_nothing_behind(
    openai: ScriptedProvider,
) -> None:
    openai.headers = {"Location": "http://127.0.0.1:1/"}
    for asked, (status, body, words) in enumerate(ODD_ANSWERS, 1):
        openai.status, openai.body = status, body
        error = add("openai")["error"]
        assert words in error
        assert KEY not in error
        assert len(openai.seen) == asked
    assert not Provider.objects.exists()


def test_models_are_named_where_they_are_not_listed(provider: ScriptedProvider) -> None:
    provider.status, provider.body = 404, b"no such page\n at all"

    assert own(provider, "--free")["error"] == (
        "local answered 404: no such page at all; name its models with --model; nothing was stored"
    )
    added = own(provider, "--free", "--model", "gpt/x", "--model", "my-embedder")
    assert added["enabled"] == ["gpt/x", "local/my-embedder"]

    provider.status = 200
    provider.lists({"id": "listed", "context_length": 4096}, "other")
    assert own(provider, "--free", "--model", "listed")["enabled"] == ["local/listed"]
    assert build_snapshot().models["local/listed"].context_length == 4096


TOOLS = {"tools", "tool_choice"}
SCHEMA = {"response_format", "structured_outputs"}
LOGPROBS = {"logprobs", "top_logprobs"}


def refusing_model(*names: str, status: int = 400) -> Callable[[dict[str, Any]], tuple[int, Any]]:
    """A model that refuses bodies with one of these fields."""

    def chat(body: dict[str, Any]) -> tuple[int, Any]:
        if body.keys() & set(names):
            return status, {"error": {"message": "not supported"}}
        return able(body)

    return chat


def deaf(body: dict[str, Any]) -> tuple[int, Any]:
    """One that answers everything in plain words."""
    return able({})


def cut_off(body: dict[str, Any]) -> tuple[int, Any]:
    status, answer = able({})
    answer["choices"][0]["finish_reason"] = "length"
    return status, answer


@pytest.mark.parametrize(
    ("chat", "told", "takes", "decides"),
    [
        (able, "yes yes yes", LOGPROBS | TOOLS | SCHEMA, "logprobs"),
        (refusing_model("tools", status=500), "yes no yes", LOGPROBS | SCHEMA, "logprobs"),
        (refusing_model("logprobs"), "no yes yes", TOOLS | SCHEMA, "schema"),
        (refusing_model("logprobs", "response_format"), "no yes no", TOOLS, None),
        (deaf, "ignored ignored ignored", {"tools"}, None),
        (cut_off, "untold untold untold", TOOLS | SCHEMA, "schema"),
        (
            refusing_model("tools", "logprobs", status=429),
            "untold untold yes",
            TOOLS | SCHEMA,
            "schema",
        ),
    ],
)
def test_what_a_model_takes_is_found_out(
    provider: ScriptedProvider, chat: Any, told: str, takes: set[str], decides: str | None
) -> None:
    provider.lists("llama")
    provider.chat = chat

    outcomes = own(provider, "--free")["probed"]["local/llama"]

    assert list(outcomes) == ["logprobs", "tools", "json_schema"]
    assert " ".join(outcomes.values()) == told
    endpoint = build_snapshot().models["local/llama"].endpoints[0]
    assert endpoint.supported_parameters & (TOOLS | SCHEMA | LOGPROBS) == takes
    assert endpoint.decides == decides
    assert all(body["max_tokens"] <= 64 for body in provider.chats)
    assert len(provider.chats) == 3


def test_a_model_that_refuses_to_chat_is_not_enabled(provider: ScriptedProvider) -> None:
    provider.lists("silent-name", "llama")
    provider.chat = lambda body: (501, {}) if body["model"] == "silent-name" else able(body)

    added = own(provider, "--free")

    assert (added["enabled"], added["skipped"]) == (["local/llama"], ["local/silent-name"])
    assert len(provider.chats) == 4 + 3


def test_nobody_is_called_who_is_not_to_be(provider: ScriptedProvider) -> None:
    provider.lists("llama", {"id": "told", "supported_parameters": ["tools"]})
    own(provider, "--free", "--no-probe")
    assert (
        build_snapshot().models["local/llama"].endpoints[0].supported_parameters >= TOOLS | SCHEMA
    )

    assert own(provider, "--free")["kept"] == ["local/llama", "local/told"]
    assert provider.chats == []


def test_what_an_operator_says_of_a_model_stays(provider: ScriptedProvider) -> None:
    provider.lists("llama")
    own(provider)
    Endpoint.objects.update(supported_parameters=["max_tokens"])

    own(provider, "--free")

    assert Endpoint.objects.get().supported_parameters == ["max_tokens"]


def test_an_endless_answer_is_cut(
    openai: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "ANSWER_BYTES_MAX", 1000)
    openai.body = b" " * 10_000

    assert "more than 1000 bytes" in add("openai")["error"]


def test_a_provider_that_is_not_there_is_told_in_one_line() -> None:
    assert add("local", "--base-url", "http://127.0.0.1:1/v1")["error"] == (
        "local does not answer at http://127.0.0.1:1/v1/models: connection refused; "
        "nothing was stored"
    )


def test_a_key_that_is_none_is_never_quoted(
    openai: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-two\nlines")

    assert "sk-two" not in add("openai")["error"]
    assert openai.seen == []


def test_what_is_missing_is_named_and_an_odd_price_is_a_usage_error() -> None:
    assert "set OPENAI_API_KEY" in add("openai")["error"]
    assert "give its --base-url" in add("nobody")["error"]
    assert "NOT_SET_HERE is not set" in add("openai", "--key-env", "NOT_SET_HERE")["error"]
    for price in ("1", "a/b", "-1/1", "NaN/0"):
        assert run("add_provider", "local", "--price", price)[0] != 0


def test_the_environment_says_which_providers_have_a_key(
    openai: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-key")

    assert [known.slug for known in list_configured_providers()] == ["openai", "groq"]


def test_ids_of_a_provider_become_ids_of_ours() -> None:
    ours = {"gpt-4o": "acme/gpt-4o", "llama3:8b": "acme/llama3:8b", "/": "acme/model"}
    ours |= {"meta-llama/Llama-3.3-70B": "meta-llama/Llama-3.3-70B"}
    ours |= {"accounts/acme/models/llama-v3": "acme/llama-v3", "@cf/meta/llama": "acme/llama"}
    ours |= {"name with spaces@x": "acme/name-with-spaces-x"}

    assert {upstream: _our_id("acme", upstream) for upstream in ours} == ours


def test_a_message_style_provider_is_asked_in_its_own_way(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing_for("anthropic", provider, monkeypatch)
    can, cannot = {"supported": True}, {"supported": False}
    able = {"structured_outputs": can, "effort": cannot, "pdf_input": cannot}
    sonnet: dict[str, Any] = {"type": "model", "id": "claude-sonnet-4-5"}
    sonnet |= {"display_name": "Claude Sonnet 4.5"}
    sonnet |= {"max_input_tokens": 200_000, "max_tokens": 64_000, "capabilities": able}
    provider.lists(
        sonnet | {"created_at": "2025-09-29T00:00:00Z"},
        {"type": "model", "id": "claude-unheard-of", "created_at": "soon"},
    )

    assert add("anthropic")["unpriced"] == ["anthropic/claude-unheard-of"]

    [(path, headers)] = provider.seen
    assert (path, headers["Authorization"]) == ("/v1/models?limit=1000", None)
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    model = build_snapshot().models["anthropic/claude-sonnet-4-5"]
    endpoint = model.endpoints[0]
    assert (endpoint.provider.kind, endpoint.provider.credential) == ("anthropic", KEY)
    assert (model.created, model.input_modalities) == (1_759_104_000, ("text", "image"))
    assert (endpoint.context_length, endpoint.max_completion_tokens) == (200_000, 64_000)
    assert {"reasoning", "top_k", "response_format"} <= endpoint.supported_parameters
    assert "reasoning_effort" not in endpoint.supported_parameters


def test_another_kind_is_named_once(provider: ScriptedProvider) -> None:
    provider.lists("local-model")

    kinds = []
    for arguments in ((), ("--kind", "responses"), ()):
        own(provider, "--price", "1/2", *arguments)
        kinds.append(Provider.objects.get().kind)

    assert kinds == ["openai", "responses", "responses"]
