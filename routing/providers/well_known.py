"""Providers that need no introduction: where they are and how their key is usually called."""

import os
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """A provider to add. `key_env` names the environment variable its key is looked for in, `kind`
    is the wire kind it speaks."""

    slug: str
    name: str
    base_url: str
    key_env: str
    kind: str = "openai"

    def key(self) -> str | None:
        """The key from the environment, if there is one."""
        return os.environ.get(self.key_env, "").strip() or None


_TABLE: Final[tuple[tuple[str, ...], ...]] = (
    ("anthropic", "Anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "anthropic"),
    ("openai", "OpenAI", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    ("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    ("groq", "Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    ("mistral", "Mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    ("deepseek", "DeepSeek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    ("together", "Together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    ("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    ("xai", "xAI", "https://api.x.ai/v1", "XAI_API_KEY"),
    ("cerebras", "Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    ("moonshotai", "Moonshot AI", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    ("novita", "Novita", "https://api.novita.ai/v3/openai", "NOVITA_API_KEY"),
)
KNOWN: Final = {row[0]: KnownProvider(*row) for row in _TABLE}


def configured_from_environment() -> list[KnownProvider]:
    """The well-known providers whose key is in the environment."""
    return [provider for provider in KNOWN.values() if provider.key()]
