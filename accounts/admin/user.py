"""People: operators of this admin, members of accounts, creators of keys; apps that have keys."""

from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Any

from allauth.account.models import EmailAddress, EmailConfirmation
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from accounts.admin.recorded import RecordedMixin
from accounts.models import App, AuthorizationCode, Membership, User
from accounts.people.records import record_sign_in
from accounts.services.keys import end_playgrounds
from accounts.services.oauth import revoke_app
from accounts.services.records import operator_actor
from gateway.admin import PageAdmin, ReadOnlyAdmin, ReadOnlyInline

# django-stubs makes it generic; Django itself does not let it be subscripted.
if TYPE_CHECKING:
    _UserAdmin = DjangoUserAdmin[User]
else:
    _UserAdmin = DjangoUserAdmin
_FIELDSETS: tuple[Any, ...] = tuple(DjangoUserAdmin.fieldsets or ())


class AccountInline(ReadOnlyInline):
    """Which accounts the person belongs to."""

    model = Membership
    fields = ("account", "role", "created_at")
    related = ("account", "user")


@admin.register(User)
class UserAdmin(RecordedMixin, _UserAdmin, PageAdmin):  # type: ignore[misc]  # Stubs lack `change`.
    """Django's own page, with the public id and the accounts."""

    object_type = "user"
    facts = ("username", "email", "is_active", "is_staff", "is_superuser")
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm

    list_display = ("username", "email", "public_id", "is_active", "is_staff", "last_login")
    list_filter = ("is_active", "is_staff", "is_superuser")
    search_fields = ("username", "email", "public_id")
    show_full_result_count = False
    readonly_fields = ("public_id", "confirmed_email", "last_login", "date_joined")
    fieldsets = (*_FIELDSETS, ("API", {"fields": ("public_id", "confirmed_email")}))
    inlines = (AccountInline,)
    actions = ("end_sessions",)

    @admin.action(description="End all sessions", permissions=["change"])
    def end_sessions(self, request: HttpRequest, people: QuerySet[User]) -> None:
        for person in people:
            for session in UserSession.objects.filter(user=person):
                session.end()
            by = operator_actor(request.user)
            end_playgrounds(person, by=by)
            record_sign_in(request, "sessions ended", user=person, by=by)
        messages.success(request, "Whoever was signed in signs in again.")

    def user_change_password(
        self,
        request: HttpRequest,
        id: str,
        form_url: str = "",
    ) -> HttpResponse:
        """With a record: whoever sets a password can sign in as that person."""
        answer: HttpResponse = super().user_change_password(request, id, form_url)
        if answer.status_code == HTTPStatus.FOUND:
            by, person = operator_actor(request.user), User.objects.get(pk=id)
            end_playgrounds(person, by=by)
            record_sign_in(request, "password set", user=person, by=by)
        return answer

    def find_account_id(self, obj: object) -> None:
        """Nobody's own: a person may belong to several."""


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


@admin.register(App)
class AppAdmin(ReadOnlyAdmin):
    """Apps come by themselves, when somebody authorizes one."""

    list_display = ("name", "origin", "account", "keys", "authorized_at", "revoked_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    search_fields = ("name", "origin", "account__name")
    list_select_related = ("account",)
    ordering = ("-authorized_at",)
    actions = ("revoke",)  # type: ignore[assignment]  # The base has none.

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        living = Q(keys__deleted_at__isnull=True)
        rows: QuerySet[Any] = super().get_queryset(request)
        counted: QuerySet[Any] = rows.annotate(key_count=Count("keys", filter=living))
        return counted

    @admin.display(description="keys", ordering="key_count")
    def keys(self, app: Any) -> SafeString:
        url = reverse("admin:accounts_apikey_changelist")
        return format_html('<a href="{}?app__id__exact={}">{}</a>', url, app.pk, app.key_count)

    @admin.action(description="Revoke apps and delete their keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, chosen: QuerySet[App]) -> None:
        by = operator_actor(request.user)
        deleted = [
            revoke_app(account_id=app.account_id, app_id=app.pk, by=by)
            for app in chosen
            if app.revoked_at is None
        ]
        messages.success(request, f"Revoked {len(deleted)} apps and {sum(deleted)} keys.")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Django asks for it by the action's word. Nothing else of an app can be changed."""
        return request.user.has_perm("accounts.change_app")


@admin.register(AuthorizationCode)
class AuthorizationCodeAdmin(ReadOnlyAdmin):
    """Codes of the last day, by the key that they are for. Their strings are kept nowhere."""

    list_display = ("created_at", "key_name", "app", "workspace", "failures", "used_at")
    fields = (
        *("created_at", "key_name", "app", "workspace", "creator", "limit_nano", "limit_reset"),
        *("expires_at", "failures", "used_at"),
    )
    list_select_related = ("app", "workspace__account")
    search_fields = ("key_name", "app__name", "workspace__account__name")
    ordering = ("-created_at",)
