"""Accounts, their people and workspaces, and money that comes in."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, F, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.safestring import SafeString

from accounts.admin.credits import MoneyPages
from accounts.admin.fields import ModelsField, WordsField
from accounts.admin.history import render_account_histories, render_usage
from accounts.models import Account, Membership, Workspace
from accounts.services.organization import POLICY_FIELDS, change_account, open_account
from accounts.services.records import operator_actor
from gateway.admin import Form, PageAdmin, ReadOnlyInline, changed_fields, count_column, usd_column


class WorkspaceInline(ReadOnlyInline):
    """The account's workspaces."""

    model = Workspace
    fields = ("name", "slug", "default_text_model", "is_default")
    related = ("account",)


class AccountMemberInline(ReadOnlyInline):
    """Who belongs to the account."""

    model = Membership
    fields = ("user", "role", "created_at")
    related = ("account", "user")


class AccountForm(Form):
    """An account, with what all of its requests are held to."""

    allowed_models = ModelsField(
        required=False,
        help_text="Model ids, with commas between. Requests of this account go to no other model; "
        "empty allows all of them.",
    )
    data_collection = forms.ChoiceField(
        choices=Account.DataCollection.choices,
        required=False,
        help_text="Denied: requests of this account go to no endpoint that collects data.",
    )
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
        fields = ("name", *POLICY_FIELDS)

    def clean_data_collection(self) -> str:
        return self.cleaned_data["data_collection"] or Account.DataCollection.ALLOW.value


@admin.register(Account)
class AccountAdmin(MoneyPages, PageAdmin):
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
    can_delete = False
    inlines = (WorkspaceInline, AccountMemberInline)
    change_form_template = "admin/accounts/account/change_form.html"
    keys = count_column("key_count", "keys")
    new_fields = ("name",)
    readonly_fields = (
        *("id", "credits", "usage", "balance", "held", "created_at"),
        *("lately", "histories"),
    )
    fields = (*AccountForm.Meta.fields, *readonly_fields)

    def get_queryset(self, request: HttpRequest) -> Any:
        living = Count("keys", filter=Q(keys__deleted_at__isnull=True))
        left_nano = F("total_credits_nano") - F("total_usage_nano")
        return super().get_queryset(request).annotate(key_count=living, left_nano=left_nano)

    @admin.display(description="used")
    def lately(self, account: Account) -> SafeString:
        return render_usage(account.pk, "account", account.pk)

    @admin.display(description="history")
    def histories(self, account: Account) -> SafeString:
        return render_account_histories(account.pk)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            changes = {name: getattr(obj, name) for name in changed_fields(obj, form)}
            change_account(account_id=obj.pk, changes=changes, by=operator_actor(request.user))
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
