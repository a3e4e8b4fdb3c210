"""Where every path leads. Apps are named by string; paths stand without a trailing slash."""

from django.contrib import admin
from django.urls import include, path

from gateway import health

handler400 = "gateway.http.handlers.bad_request"
handler403 = "gateway.http.handlers.forbidden"
handler404 = "gateway.http.handlers.not_found"
handler500 = "gateway.http.handlers.server_failed"

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("api/", include("routing.urls")),
    path("api/", include("accounts.urls")),
    path("admin/", admin.site.urls),
]
