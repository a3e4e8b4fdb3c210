"""The rows of the app, where Django looks for them."""

from routing.catalogue.history import EndpointSample, ProviderProbe
from routing.catalogue.models import (
    CatalogueServing,
    CatalogueVersion,
    Endpoint,
    Model,
    ModelAlias,
    Provider,
)
from routing.metering.models import Generation
from routing.metering.popularity import CallsCounted, DailyCalls

__all__ = [
    "CallsCounted",
    "CatalogueServing",
    "CatalogueVersion",
    "DailyCalls",
    "Endpoint",
    "EndpointSample",
    "Generation",
    "Model",
    "ModelAlias",
    "Provider",
    "ProviderProbe",
]
