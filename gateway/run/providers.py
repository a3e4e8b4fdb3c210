"""Real providers that a run adds by itself, because their key is in the environment."""

from collections.abc import Mapping

WELL_KNOWN = (
    *("openai", "openrouter", "groq", "mistral"),
    *("deepseek", "together", "fireworks", "xai"),
)


def with_key_in(environment: Mapping[str, str]) -> list[str]:
    """The well-known providers whose `NAME_API_KEY` is set."""
    return [name for name in WELL_KNOWN if environment.get(f"{name.upper()}_API_KEY", "").strip()]
