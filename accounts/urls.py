"""Paths of the app, below /api/."""

from django.urls import URLPattern, path

from accounts.views.credits import CreditsViewSet
from accounts.views.key import KeyViewSet
from accounts.views.keys import KeysViewSet

urlpatterns: list[URLPattern] = [
    path("v1/key", KeyViewSet.as_view({"get": "retrieve"})),
    path("v1/keys", KeysViewSet.as_view({"post": "create"})),
    path("v1/credits", CreditsViewSet.as_view({"get": "retrieve"})),
    path("v1/credits/coinbase", CreditsViewSet.as_view({"post": "coinbase"})),
]
