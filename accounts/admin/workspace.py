"""Workspaces, and who belongs to which account."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.safestring import SafeString

from accounts.admin.budgets import BudgetInline
from accounts.admin.fields import (
    MemberKeyLimitsField,
    ModelField,
    NumbersField,
    RateLimitsField,
    build_checkboxes,
)
from accounts.admin.history import render_usage
from accounts.admin.recorded import RecordedAdmin
from accounts.models import Membership, Workspace, WorkspaceMembership
from accounts.models.account import QUEUE_WEIGHT_MAX, SAMPLING_RATE_MIN, SERVER_TOOLS
from accounts.roles import Action, list_account_roles
from accounts.services.directory.groups import lock_account
from accounts.services.lost_keys import disable_lost_keys
from accounts.services.organization import LastAdmin, change_role, keep_an_admin, remove_member
from accounts.services.records import operator_actor
from accounts.services.workspaces import (
    SETTINGS,
    SLUG_CHARS_MAX,
    SLUG_PATTERN,
    change_workspace,
    create_workspace,
    delete_workspace,
    resolve_own_keys,
)
from accounts.views.schemas.workspace import read_workspace_changes, show_tag_budget
from gateway.admin import Form, PageAdmin, changed_fields
from gateway.http.errors import GatewayError, SchemaInvalid
from gateway.http.jsonio import dumps, loads

_NEW = ("account", "name", "slug", "description")
_SETTINGS = (
    *("default_text_model", "default_image_model", "default_provider_sort"),
    *("disabled_server_tools", "is_observability_io_logging_enabled"),
    *("io_logging_sampling_rate", "io_logging_api_key_ids"),
    *("is_observability_broadcast_enabled", "is_data_discount_logging_enabled"),
    *("rate_limits", "member_key_limits", "budgets_of_tags"),
    *("hedge", "rescue", "response_cache", "queue_weight"),
)
_SHOWN = (
    *("id", "is_default", "default_guardrail_id", "include_byok_in_budgets"),
    *("created_by", "created_at", "updated_at", "lately"),
)


class TagBudgetsField(forms.JSONField):
    """Budgets of tags as the API takes them; their column once cleaned."""

    def __init__(self, **options: Any) -> None:
        help_text = (
            "A list of budgets with tag (team=blue, or team=* for each value apart), limit_usd and "
            "reset_interval (daily, weekly, monthly); empty for none."
        )
        super().__init__(required=False, help_text=help_text, **options)

    def clean(self, value: object) -> Any:
        try:
            return read_workspace_changes({"tag_budgets": super().clean(value)})["tag_budgets"]
        except SchemaInvalid as error:
            raise forms.ValidationError(error.text) from None


class WorkspaceForm(Form):
    """A workspace; its slug is part of what callers write."""

    slug = forms.RegexField(
        SLUG_PATTERN,
        max_length=SLUG_CHARS_MAX,
        error_messages={"invalid": "Lowercase letters and digits, with single hyphens between."},
    )
    disabled_server_tools = forms.TypedMultipleChoiceField(
        choices=[(name, name) for name in SERVER_TOOLS],
        widget=build_checkboxes(),
        required=False,
        empty_value=None,
    )
    io_logging_sampling_rate = forms.FloatField(
        min_value=SAMPLING_RATE_MIN,
        max_value=1,
        initial=1,
        help_text="Share of the requests that are logged.",
    )
    io_logging_api_key_ids = NumbersField(
        required=False,
        help_text="Numbers of the keys whose requests are logged, with commas between; empty for "
        "all keys of the workspace.",
    )

    rate_limits = RateLimitsField()
    member_key_limits = MemberKeyLimitsField()
    # Its column is written by the service alone.
    budgets_of_tags = TagBudgetsField(label="Tag budgets")
    queue_weight = forms.IntegerField(
        min_value=1,
        max_value=QUEUE_WEIGHT_MAX,
        initial=1,
        help_text="How often it is its turn in front of a full endpoint, beside others.",
    )

    class Meta:
        model = Workspace
        fields = (*_NEW, *(name for name in _SETTINGS if name != "budgets_of_tags"))
        field_classes = dict.fromkeys(("default_text_model", "default_image_model"), ModelField)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        budgets = self.instance.tag_budgets
        shown = budgets and loads(dumps([show_tag_budget(each) for each in budgets]))
        self.initial["budgets_of_tags"] = shown

    def clean(self) -> dict[str, Any] | None:
        if "budgets_of_tags" in self.cleaned_data:
            self.instance.tag_budgets = self.cleaned_data["budgets_of_tags"]
        return super().clean()

    def clean_slug(self) -> str:
        """Django leaves the constraint out: what it depends on is no field of the page."""
        slug: str = self.cleaned_data["slug"]
        account = self.cleaned_data.get("account")
        account_id = account.pk if account else self.instance.account_id
        same = Workspace.objects.filter(account_id=account_id, slug=slug)
        if same.exclude(pk=self.instance.pk).exists():
            raise forms.ValidationError("The account has a workspace of this slug.")
        return slug

    def clean_io_logging_api_key_ids(self) -> list[int] | None:
        numbers: list[int] | None = self.cleaned_data["io_logging_api_key_ids"]
        try:
            return resolve_own_keys(self.instance, numbers) if numbers else numbers
        except SchemaInvalid:
            raise forms.ValidationError("One of these is no key of this workspace.") from None


@admin.register(Workspace)
class WorkspaceAdmin(PageAdmin):
    """Workspaces stay, as the keys and the history in them do: a deleted one is only out of use."""

    form = WorkspaceForm
    list_display = ("name", "slug", "account", "is_default", "default_text_model", "created_at")
    list_filter = ("is_default", "is_observability_io_logging_enabled")
    search_fields = ("name", "slug", "account__name")
    search_help_text = "Name, slug, account or id"
    ordering = ("account__name", "slug")
    autocomplete_fields = ("account",)
    actions = ("take_out_of_use",)
    can_delete = False
    inlines = (BudgetInline,)
    new_fields = (*_NEW, *_SETTINGS)
    fields = (*new_fields, *_SHOWN)
    fixed_fields = ("account", *_SHOWN)
    related = ("account",)

    @admin.display(description="used")
    def lately(self, workspace: Workspace) -> SafeString:
        return render_usage(workspace.account_id, "workspace", workspace.pk)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        by = operator_actor(request.user)
        if not change:
            settings = {name: getattr(obj, name) for name in SETTINGS}
            made = create_workspace(
                account_id=obj.account_id, creator=None, by=by, settings=settings
            )
            # The page goes on with the row that is really there.
            obj.pk = made.pk
            obj.refresh_from_db()
            return
        fields = changed_fields(obj, form)
        if "budgets_of_tags" in form.changed_data:
            fields.append("tag_budgets")
        if fields:
            change_workspace(
                account_id=obj.account_id,
                reference=str(obj.pk),
                by=by,
                changes={name: getattr(obj, name) for name in fields},
            )

    @admin.action(description="Delete workspaces", permissions=["change"])
    def take_out_of_use(self, request: HttpRequest, chosen: QuerySet[Workspace]) -> None:
        for workspace in chosen:
            try:
                delete_workspace(
                    account_id=workspace.account_id,
                    reference=str(workspace.pk),
                    by=operator_actor(request.user),
                )
            except GatewayError as error:
                messages.error(request, f"{workspace}: {error.text}")
            else:
                messages.success(request, f"{workspace} was deleted.")


@admin.register(WorkspaceMembership)
class WorkspaceMembershipAdmin(RecordedAdmin):
    """Members of workspaces beside the default ones, to which everybody of the account belongs.
    Whoever may make no keys there any more loses the former ones: they are disabled."""

    object_type = "workspace_membership"
    facts = ("workspace_id", "membership_id", "role")

    list_display = ("membership", "workspace", "role", "created_at")
    list_select_related = ("membership__user", "membership__account", "workspace__account")
    list_filter = ("role",)
    search_fields = ("membership__user__username", "workspace__slug", "workspace__name")
    ordering = ("workspace__slug", "membership__user__username")
    autocomplete_fields = ("workspace", "membership")
    exclude = ("own_role",)
    fixed_fields = ("workspace", "membership")

    def find_account_id(self, obj: Any) -> Any:
        return obj.workspace.account_id

    def save_row(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """What an operator says is the member's own role, beside those that groups give."""
        lock_account(obj.workspace.account_id)
        obj.own_role = obj.role
        obj.save()
        disable_lost_keys([obj], operator_actor(request.user))

    def delete_row(self, request: HttpRequest, obj: Any) -> None:
        lock_account(obj.workspace.account_id)
        super().delete_row(request, obj)
        disable_lost_keys([obj], operator_actor(request.user))


class MembershipForm(Form):
    def clean_role(self) -> str:
        role: str = self.cleaned_data["role"]
        if role not in list_account_roles(Action.MEMBERS):
            try:
                keep_an_admin(self.instance)
            except LastAdmin as error:
                raise forms.ValidationError(error.text) from None
        return role


@admin.register(Membership)
class MembershipAdmin(RecordedAdmin):
    """When a member leaves, the keys that they created stop working. Those that a lower role does
    not allow are disabled."""

    object_type = "membership"
    facts = ("user_id", "role")

    form = MembershipForm
    list_display = ("user", "account", "role", "created_at")
    list_select_related = ("user", "account")
    list_filter = ("role",)
    search_fields = ("user__username", "user__public_id", "account__name")
    ordering = ("account__name", "user__username")
    autocomplete_fields = ("user", "account")
    fixed_fields = ("user", "account")
    actions = None

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            super().save_model(request, obj, form, change)
        elif form.has_changed():
            change_role(
                account_id=obj.account_id,
                user_id=obj.user.public_id,
                role=obj.role,
                by=operator_actor(request.user),
            )

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, extra_context)
        except LastAdmin as error:
            messages.error(request, error.text)
            return redirect("admin:accounts_membership_change", object_id)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        remove_member(
            account_id=obj.account_id,
            user_id=obj.user.public_id,
            by=operator_actor(request.user),
        )
