"""Where every path leads. Apps are named by string; paths stand without a trailing slash."""

from django.contrib import admin
from django.urls import include, path, re_path
from django.views.generic import RedirectView

from gateway import health
from gateway.metrics.listener import metrics
from gateway.openapi.views import DocumentViewSet, docs

admin.autodiscover()

handler400 = "gateway.http.handlers.handle_bad_request"
handler403 = "gateway.http.handlers.handle_forbidden"
handler404 = "gateway.http.handlers.handle_404"
# allauth's limits.
handler429 = "accounts.people.middleware.turn_away"
handler500 = "gateway.http.handlers.handle_server_error"

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics),
    path("api/", include("routing.urls")),
    path("", include("accounts.urls")),
    path("api/", include("interns.urls")),
    path("api/v1/openapi.json", DocumentViewSet.as_view({"get": "retrieve"}), name="openapi"),
    # Browsers ask for it where a page names no icon.
    path("favicon.ico", RedirectView.as_view(url="/static/console/favicon.svg")),
    re_path(r"^docs/?$", docs, name="docs"),
    path("console/", include("console.sign_in_urls")),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    # People sign in to the admin where they sign in to all pages.
    path("admin/login/", RedirectView.as_view(pattern_name="admin_sign_in", query_string=True)),
    path("admin/", admin.site.urls),
    path("", include("console.urls")),
]
