"""Lines to paste that ask a model, for the clients that people have."""

from typing import Final, NamedTuple

from routing.catalogue.snapshot import catalogue
from routing.upstreams.decisions import KIND as DECISIONS

# What stands for a key where none is to be shown.
KEY_VARIABLE: Final = "$API_KEY"


class Snippet(NamedTuple):
    """A text to paste: its id on the page, the client's name, and the text."""

    id: str
    label: str
    text: str


def choose_model() -> str:
    """The first model that was listed and answers in text."""
    for model in catalogue.current().listing[::-1]:
        answers = any(each.wire_kind != DECISIONS for each in model.by_price)
        if answers and "text" in model.output_modalities:
            return model.id
    return "author/model"


def list_snippets(root_url: str, key: str = KEY_VARIABLE, model: str = "") -> list[Snippet]:
    """A snippet for each client. `root_url` ends with a slash; `key` is a key's string."""
    model = model or choose_model()
    api = f"{root_url}api"
    in_python = 'os.environ["API_KEY"]' if key == KEY_VARIABLE else f'"{key}"'
    in_node = "process.env.API_KEY" if key == KEY_VARIABLE else f'"{key}"'
    return [
        Snippet("curl", "curl", _CURL.format(api=api, key=key, model=model)),
        Snippet("python", "Python", _PYTHON.format(api=api, key=in_python, model=model)),
        Snippet("node", "Node", _NODE.format(api=api, key=in_node, model=model)),
        Snippet("claude", "Claude Code", _CLAUDE.format(api=api, key=key, model=model)),
        Snippet("codex", "Codex", _CODEX.format(api=api, model=model)),
        Snippet("langchain", "LangChain", _LANGCHAIN.format(api=api, key=in_python, model=model)),
    ]


_CURL: Final = """\
curl {api}/v1/chat/completions \\
  -H "Authorization: Bearer {key}" \\
  -H "Content-Type: application/json" \\
  -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}'"""
_PYTHON: Final = """\
import os
from openai import OpenAI

client = OpenAI(base_url="{api}/v1", api_key={key})
answer = client.chat.completions.create(
    model="{model}", messages=[{{"role": "user", "content": "Hello"}}]
)
print(answer.choices[0].message.content)"""
_NODE: Final = """\
import OpenAI from "openai";

const client = new OpenAI({{ baseURL: "{api}/v1", apiKey: {key} }});
const answer = await client.chat.completions.create({{
  model: "{model}",
  messages: [{{ role: "user", content: "Hello" }}],
}});
console.log(answer.choices[0].message.content);"""
_CLAUDE: Final = """\
export ANTHROPIC_BASE_URL="{api}"
export ANTHROPIC_AUTH_TOKEN="{key}"
export ANTHROPIC_MODEL="{model}"
claude"""
_CODEX: Final = """\
# ~/.codex/config.toml; the key stands in the variable API_KEY
model = "{model}"
model_provider = "gateway"

[model_providers.gateway]
name = "Routing Gateway"
base_url = "{api}/v1"
env_key = "API_KEY"
wire_api = "responses\""""
_LANGCHAIN: Final = """\
import os
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="{model}", base_url="{api}/v1", api_key={key})
print(model.invoke("Hello").content)"""
