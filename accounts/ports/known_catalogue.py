"""What models and providers are called in the catalogue: asked of the app above at start-up."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

# Names as people write them -> what the catalogue calls what they name; unknown ones are missing.
Canonical: TypeAlias = Callable[[Iterable[str]], Mapping[str, str]]

_models: list[Canonical] = []
_providers: list[Canonical] = []


def know_catalogue_by(*, models: Canonical, providers: Canonical) -> None:
    """Let these tell the canonical slugs. The last ones given count."""
    _models[:], _providers[:] = [models], [providers]


def canonical_models(names: Iterable[str]) -> Mapping[str, str]:
    """The canonical slugs of those that name a model. Raises `DatabaseGone`."""
    assert _models, "nobody has said which models there are"
    return _models[0](names)


def canonical_providers(names: Iterable[str]) -> Mapping[str, str]:
    """The slugs of those that name a provider. Raises `DatabaseGone`."""
    assert _providers, "nobody has said which providers there are"
    return _providers[0](names)
