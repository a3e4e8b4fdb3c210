"""Which model names are known: asked of the app above, which says so at start-up."""

from collections.abc import Callable

_checks: list[Callable[[str], bool]] = []


def know_models_by(check: Callable[[str], bool]) -> None:
    """Let `check` tell whether a name is one of a model. The last one given counts."""
    _checks[:] = [check]


def is_known_model(name: str) -> bool:
    """Whether a request could name this model. Raises `DatabaseGone`."""
    assert _checks, "nobody has said which models there are"
    return _checks[0](name)
