"""The admin of the catalogue and of generations."""

from routing.admin import endpoint, generation, model, provider, samples, versions

__all__ = ["endpoint", "generation", "model", "provider", "samples", "versions"]
