"""The admin of the catalogue, of generations and of where they are sent."""

from routing.admin import (
    credential,
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
    "credential",
    "destination",
    "endpoint",
    "generation",
    "history",
    "model",
    "preset",
    "provider",
    "samples",
]
