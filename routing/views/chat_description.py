"""How /chat/completions is described in the OpenAPI document."""

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def describe_chat(view: F) -> F:
    return view
