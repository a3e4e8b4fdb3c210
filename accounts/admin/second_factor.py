"""Second factors of people: to look at, and to take away from somebody who lost his device."""

from importlib import import_module
from typing import Any

from allauth.account.models import EmailAddress, EmailConfirmation
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib import admin
from django.http import HttpRequest

from accounts.people.records import record_sign_in
from accounts.services.records import operator_actor
from gateway.admin import ReadOnlyAdmin

# Their own pages show seeds and let operators write what people write themselves. They are there
# once these modules are.
for _app in ("account", "mfa", "usersessions"):
    import_module(f"allauth.{_app}.admin")
for _model in (EmailAddress, EmailConfirmation, Authenticator, UserSession):
    if admin.site.is_registered(_model):
        admin.site.unregister(_model)


@admin.register(Authenticator)
class SecondFactorAdmin(ReadOnlyAdmin):
    """Which kinds a person has, and when each was used last."""

    list_display = ("user", "type", "created_at", "last_used_at")
    list_filter = ("type",)
    list_select_related = ("user",)
    search_fields = ("user__username",)
    fields = ("user", "type", "created_at", "last_used_at")
    ordering = ("user__username", "pk")

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        user: Any = request.user
        return bool(user.has_perm("mfa.delete_authenticator"))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        record_sign_in(
            request,
            "factor removed",
            user=obj.user,
            by=operator_actor(request.user),
            factor=obj.type,
        )
        super().delete_model(request, obj)
