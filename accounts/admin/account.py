"""Accounts, their people and workspaces, and money that comes in."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from accounts.admin.credits import CreditsForm, book
from accounts.admin.fields import WordsField
from accounts.admin.histories import account_histories
from accounts.models import Account, Membership, Workspace
from accounts.services.accounts import open_account
from gateway.admin import Form, PageAdmin, ReadOnlyInline, usd_column
from gateway.http.jsonio import usd_text


class WorkspaceInline(ReadOnlyInline):
    """The account's workspaces."""

    model = Workspace
    fields = ("name", "slug", "default_text_model", "is_default")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # A workspace is named after its account.
        return super().get_queryset(request).select_related("account")


class MemberInline(ReadOnlyInline):
    """Who belongs to the account."""

    model = Membership
    fields = ("user", "role", "created_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # A row is named after its account and its user.
        return super().get_queryset(request).select_related("account", "user")


class AccountForm(Form):
    """An account, with the providers that its requests may be sent to."""

    allowed_providers = WordsField(
        required=False,
        help_text="Provider slugs, with commas between. Requests of this account go to no other "
        "provider; empty allows all of them.",
    )
    ignored_providers = WordsField(
        required=False,
        help_text="Provider slugs, with commas between, that no request of this account goes to.",
    )

    class Meta:
        model = Account
        fields = ("name", "allowed_providers", "ignored_providers")


@admin.register(Account)
class AccountAdmin(PageAdmin):
    """Totals are the ledger's; money comes in through `Add credits`."""

    form = AccountForm
    credits = usd_column("total_credits_nano", "credits")
    usage = usd_column("total_usage_nano", "usage")
    held = usd_column("held_nano", "held")
    balance = usd_column("left_nano", "balance")
    list_display = ("name", "credits", "usage", "balance", "held", "keys", "created_at")
    search_fields = ("name",)
    search_help_text = "Name or id"
    ordering = ("name",)
    actions = ("add_credits_to",)
    inlines = (WorkspaceInline, MemberInline)
    change_form_template = "admin/accounts/account/change_form.html"
    _SHOWN = ("id", "credits", "usage", "balance", "held", "created_at", "histories")

    def get_queryset(self, request: HttpRequest) -> Any:
        living = Count("keys", filter=Q(keys__deleted_at__isnull=True))
        left_nano = F("total_credits_nano") - F("total_usage_nano")
        return super().get_queryset(request).annotate(key_count=living, left_nano=left_nano)

    def get_fields(self, request: HttpRequest, obj: Account | None = None) -> Any:
        return (*AccountForm.Meta.fields, *self._SHOWN) if obj else ("name",)

    def get_readonly_fields(self, request: HttpRequest, obj: Account | None = None) -> Any:
        return self._SHOWN

    def get_inlines(self, request: HttpRequest, obj: Account | None) -> Any:
        return self.inlines if obj else ()

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.credits_view)
        own = path("<uuid:account_id>/credits/", view, name="accounts_account_credits")
        return [own, *super().get_urls()]

    @admin.display(description="keys", ordering="key_count")
    def keys(self, account: Any) -> int:
        count: int = account.key_count
        return count

    @admin.display(description="history")
    def histories(self, account: Account) -> SafeString:
        return account_histories(account.pk)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_credits_permission(self, request: HttpRequest) -> bool:
        """Adding credits is adding a ledger entry."""
        return request.user.has_perm("accounts.add_ledgerentry")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
        else:
            # With its default workspace. The page goes on with the row that is really there.
            obj.pk = open_account(name=obj.name).pk
            obj.refresh_from_db()

    @admin.action(description="Add credits", permissions=["credits"])
    def add_credits_to(
        self, request: HttpRequest, accounts: QuerySet[Account]
    ) -> HttpResponse | None:
        chosen = list(accounts[:2])
        if len(chosen) != 1:
            messages.error(request, "Add credits to one account at a time.")
            return None
        return HttpResponseRedirect(reverse("admin:accounts_account_credits", args=[chosen[0].pk]))

    def credits_view(self, request: HttpRequest, account_id: Any) -> HttpResponse:
        if not self.has_credits_permission(request):
            raise PermissionDenied
        account = get_object_or_404(Account, pk=account_id)
        form = CreditsForm(request.POST if request.method == "POST" else None)
        if form.is_valid() and (booked := book(form, account=account, by=str(request.user))):
            self._tell(request, account, *booked)
            page = reverse("admin:accounts_account_change", args=[account.pk])
            return HttpResponseRedirect(page)
        context = {
            **self.admin_site.each_context(request),
            "title": "Add credits",
            "opts": self.opts,
            "account": account,
            "balance": usd_text(account.balance_nano),
            "form": form,
        }
        return TemplateResponse(request, "admin/accounts/account/credits.html", context)

    def _tell(self, request: HttpRequest, account: Account, amount_nano: int, new: bool) -> None:
        said = f"{usd_text(amount_nano)} USD"
        if not new:
            messages.warning(request, f"{said} had been added already, and count once.")
            return
        self.log_change(request, account, f"Added credits: {said}.")
        messages.success(request, f"Added {said} to {account}.")
