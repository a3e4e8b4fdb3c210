"""Paths of chats with interns, below /api/."""

from django.urls import URLPattern, re_path

from interns.chat.views import ChatViewSet

urlpatterns: list[URLPattern] = [
    re_path(
        r"^v1/interns/(?P<intern_id>[^/]+)/chat/completions$",
        ChatViewSet.as_view({"post": "create"}),
    ),
]
