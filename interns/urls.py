"""Paths of the app, below /api/."""

from django.urls import URLPattern, path, re_path

from interns.chat.urls import urlpatterns as chat_patterns
from interns.outbound.urls import urlpatterns as outbound_patterns
from interns.vault.urls import urlpatterns as vault_patterns
from interns.views.interns import InternsViewSet

_INTERN = r"^v1/interns/(?P<intern_id>[^/]+)"

urlpatterns: list[URLPattern] = [
    path("v1/interns", InternsViewSet.as_view({"get": "list", "post": "create"})),
    re_path(
        rf"{_INTERN}$",
        InternsViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
    ),
    re_path(rf"{_INTERN}/provision$", InternsViewSet.as_view({"post": "provision"})),
    re_path(rf"{_INTERN}/suspend$", InternsViewSet.as_view({"post": "suspend"})),
    *chat_patterns,
    *outbound_patterns,
    *vault_patterns,
]
