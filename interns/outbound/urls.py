"""Paths of the outbound door, below /api/."""

from django.urls import URLPattern, re_path

from interns.outbound.views import FetchViewSet

urlpatterns: list[URLPattern] = [
    re_path(r"^v1/interns/(?P<intern_id>[^/]+)/fetch$", FetchViewSet.as_view({"post": "create"})),
]
