"""The admin of the catalogue and of generations."""

from routing.admin import (
    endpoint,
    generation,
    history,
    model,
    preset,
    provider,
    samples,
)

__all__ = [
    "endpoint",
    "generation",
    "history",
    "model",
    "preset",
    "provider",
    "samples",
]
