"""The admin of the catalogue, of generations and of where they are sent."""

from routing.admin import (
    destination,
    endpoint,
    generation,
    history,
    model,
    preset,
    provider,
    samples,
)

__all__ = [
    "destination",
    "endpoint",
    "generation",
    "history",
    "model",
    "preset",
    "provider",
    "samples",
]
