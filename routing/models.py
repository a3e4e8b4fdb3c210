"""The rows of the app, where Django looks for them."""

from routing.catalogue.credentials import ProviderCredential
from routing.catalogue.models import Endpoint, Model, ModelAlias, Provider
from routing.catalogue.version import CatalogueServing, CatalogueVersion
from routing.destinations.models import Destination
from routing.history.models import (
    GenerationContent,
    GenerationFact,
    GenerationFeedback,
    LateHour,
    UsageDay,
    UsageHour,
    UsageLine,
    UsageRolled,
    UsageSpread,
)
from routing.metering.models import CredentialSpend, Generation
from routing.metering.popularity import CallsCounted, DailyCalls
from routing.presets.models import Preset, PresetVersion
from routing.reports.models import FailedRequest, FailedRequestCount
from routing.statistics.models import EndpointSample, ProviderProbe

__all__ = [
    "CallsCounted",
    "CatalogueServing",
    "CatalogueVersion",
    "CredentialSpend",
    "DailyCalls",
    "Destination",
    "Endpoint",
    "EndpointSample",
    "FailedRequest",
    "FailedRequestCount",
    "Generation",
    "GenerationContent",
    "GenerationFact",
    "GenerationFeedback",
    "LateHour",
    "Model",
    "ModelAlias",
    "Preset",
    "PresetVersion",
    "Provider",
    "ProviderCredential",
    "ProviderProbe",
    "UsageDay",
    "UsageHour",
    "UsageLine",
    "UsageRolled",
    "UsageSpread",
]
