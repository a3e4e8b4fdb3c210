"""Paths of the app, below /api/."""

from django.urls import URLPattern, path, re_path

from routing.views.analytics import ActivityViewSet, AnalyticsViewSet, UsageExportViewSet
from routing.views.catalogue import EndpointViewSet, ModelViewSet, ProviderViewSet
from routing.views.destinations import DestinationsViewSet
from routing.views.generation import (
    ContentViewSet,
    FeedbackViewSet,
    GenerationViewSet,
    RouteViewSet,
)
from routing.views.inference import (
    ChatViewSet,
    DecisionsViewSet,
    EmbeddingsViewSet,
    MessagesViewSet,
    ResponsesViewSet,
    SystemOneViewSet,
    TokenCountViewSet,
)
from routing.views.presets import (
    ChatPresetViewSet,
    MessagesPresetViewSet,
    PresetsViewSet,
    PresetVersionsViewSet,
    ResponsesPresetViewSet,
)
from routing.views.privacy import ErasureViewSet
from routing.views.what_if import WhatIfViewSet

_MODEL = r"(?P<author>[^/]+)/(?P<slug>[^/]+)"
_PRESET = r"^v1/presets/(?P<slug>[^/]+)"

_DESTINATIONS = r"^v1/observability/destinations"
_DESTINATION = rf"{_DESTINATIONS}/(?P<destination>[^/]+)"

urlpatterns: list[URLPattern] = [
    path("v1/chat/completions", ChatViewSet.as_view({"post": "create"})),
    path("v1/messages", MessagesViewSet.as_view({"post": "create"})),
    path("v1/messages/count_tokens", TokenCountViewSet.as_view({"post": "create"})),
    path("v1/responses", ResponsesViewSet.as_view({"post": "create"})),
    path("v1/embeddings", EmbeddingsViewSet.as_view({"post": "create"})),
    path("alpha/decisions", DecisionsViewSet.as_view({"post": "create"})),
    path("v1/systemone", SystemOneViewSet.as_view({"post": "create"})),
    path("v1/generation", GenerationViewSet.as_view({"get": "retrieve"})),
    path("v1/generation/content", ContentViewSet.as_view({"get": "retrieve"})),
    re_path(
        r"^v1/generation/(?P<generation_id>[^/]+)/route$", RouteViewSet.as_view({"get": "retrieve"})
    ),
    path("v1/generation/feedback", FeedbackViewSet.as_view({"post": "create"})),
    path("v1/activity", ActivityViewSet.as_view({"get": "list"})),
    path("v1/activity/export", UsageExportViewSet.as_view({"get": "retrieve"})),
    path("v1/analytics/meta", AnalyticsViewSet.as_view({"get": "meta"})),
    path("v1/analytics/query", AnalyticsViewSet.as_view({"post": "query"})),
    path("v1/privacy/erasures", ErasureViewSet.as_view({"post": "create"})),
    path("v1/routing/what-if", WhatIfViewSet.as_view({"post": "create"})),
    path("v1/models", ModelViewSet.as_view({"get": "list"})),
    path("v1/models/count", ModelViewSet.as_view({"get": "count"})),
    path("v1/models/user", ModelViewSet.as_view({"get": "user"})),
    re_path(rf"^v1/models/{_MODEL}/endpoints$", ModelViewSet.as_view({"get": "endpoints"})),
    re_path(rf"^v1/models/{_MODEL}$", ModelViewSet.as_view({"get": "named_model"})),
    re_path(rf"^v1/model/{_MODEL}$", ModelViewSet.as_view({"get": "retrieve"})),
    path("v1/endpoints/zdr", EndpointViewSet.as_view({"get": "zdr"})),
    path("v1/providers", ProviderViewSet.as_view({"get": "list"})),
    path("v1/presets", PresetsViewSet.as_view({"get": "list"})),
    re_path(rf"{_PRESET}$", PresetsViewSet.as_view({"get": "retrieve"})),
    re_path(rf"{_PRESET}/versions$", PresetVersionsViewSet.as_view({"get": "list"})),
    re_path(
        rf"{_PRESET}/versions/(?P<version>[^/]+)$",
        PresetVersionsViewSet.as_view({"get": "retrieve"}),
    ),
    re_path(rf"{_PRESET}/chat/completions$", ChatPresetViewSet.as_view({"post": "create"})),
    re_path(rf"{_PRESET}/responses$", ResponsesPresetViewSet.as_view({"post": "create"})),
    re_path(rf"{_PRESET}/messages$", MessagesPresetViewSet.as_view({"post": "create"})),
    re_path(rf"{_DESTINATIONS}$", DestinationsViewSet.as_view({"get": "list", "post": "create"})),
    re_path(
        rf"{_DESTINATION}$",
        DestinationsViewSet.as_view(
            {"get": "retrieve", "patch": "partial_update", "delete": "destroy"}
        ),
    ),
    re_path(rf"{_DESTINATION}/test$", DestinationsViewSet.as_view({"post": "test"})),
]
