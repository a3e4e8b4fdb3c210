"""The admin of the catalogue, of generations and of where they are sent."""

from routing.admin import (
    destination,
    generation,
    history,
    model,
    preset,
    provider,
)

__all__ = [
    "destination",
    "generation",
    "history",
    "model",
    "preset",
    "provider",
]
