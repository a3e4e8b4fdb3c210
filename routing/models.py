"""The rows of the app, where Django looks for them."""

from routing.catalogue.models import (
    CatalogueServing,
    CatalogueVersion,
    Endpoint,
    Model,
    ModelAlias,
    Provider,
)
from routing.metering.models import Generation

__all__ = [
    "CatalogueServing",
    "CatalogueVersion",
    "Endpoint",
    "Generation",
    "Model",
    "ModelAlias",
    "Provider",
]
