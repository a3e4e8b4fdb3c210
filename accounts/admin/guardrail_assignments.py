"""Whom guardrails govern, as an operator says it."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.models import GuardrailKey, GuardrailMember
from accounts.services import guardrail_assignments as assignments
from accounts.services.records import operator_actor
from gateway.admin import Form, PageAdmin
from gateway.http.errors import GatewayError


class _AssignmentAdmin(PageAdmin):
    """Assigning and taking away, through the services."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("assigned_by", "created_at")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    # What a subclass brings: assigning a row, and the lookup of whoever it is about.
    assign: Callable[[HttpRequest, Any], None]
    holder: Callable[[Any], dict[str, Any]]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        try:
            self.assign(request, obj)
        except GatewayError as error:
            # The page has checked what it can; the rest was changed by somebody else meanwhile.
            messages.error(request, error.text)
        found = type(obj).objects.filter(**self.holder(obj)).first()
        if found is not None:
            obj.pk = found.pk

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for each in queryset:
            self.delete_model(request, each)


class _AssignmentForm(Form):
    """An assignment within one account, to a guardrail that is assigned at all."""

    holder = ""

    def clean(self) -> dict[str, Any]:
        said = super().clean() or {}
        guardrail, holder = said.get("guardrail"), said.get(self.holder)
        if guardrail is not None and guardrail.is_default:
            raise forms.ValidationError("A default guardrail governs its workspace by itself.")
        if guardrail and holder and guardrail.workspace.account_id != holder.account_id:
            raise forms.ValidationError("They belong to two accounts.")
        return said


class GuardrailKeyForm(_AssignmentForm):
    holder = "api_key"

    class Meta:
        model = GuardrailKey
        fields = ("guardrail", "api_key")

    def clean_api_key(self) -> Any:
        key = self.cleaned_data["api_key"]
        if key.is_management or key.deleted_at is not None:
            raise forms.ValidationError("Inference keys only.")
        return key


class GuardrailMemberForm(_AssignmentForm):
    holder = "membership"

    class Meta:
        model = GuardrailMember
        fields = ("guardrail", "membership")


@admin.register(GuardrailKey)
class GuardrailKeyAdmin(_AssignmentAdmin):
    """One guardrail for each key: take the old one away first."""

    form = GuardrailKeyForm
    list_display = ("api_key", "guardrail", "assigned_by", "created_at")
    list_select_related = ("api_key", "guardrail", "assigned_by")
    search_fields = ("api_key__name", "api_key__label", "guardrail__name")
    ordering = ("-created_at",)
    autocomplete_fields = ("guardrail", "api_key")

    def holder(self, obj: Any) -> dict[str, Any]:
        return {"api_key": obj.api_key_id}

    def assign(self, request: HttpRequest, obj: Any) -> None:
        assignments.assign_keys(
            account_id=obj.api_key.account_id,
            guardrail_id=obj.guardrail_id,
            by=operator_actor(request.user),
            assigner=request.user.pk,
            key_hashes=[obj.api_key.hash],
        )

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        assignments.unassign_keys(
            account_id=obj.api_key.account_id,
            guardrail_id=obj.guardrail_id,
            by=operator_actor(request.user),
            key_hashes=[obj.api_key.hash],
        )


@admin.register(GuardrailMember)
class GuardrailMemberAdmin(_AssignmentAdmin):
    """One guardrail for each member: take the old one away first."""

    form = GuardrailMemberForm
    list_display = ("membership", "guardrail", "assigned_by", "created_at")
    list_select_related = (
        *("membership__user", "membership__account"),
        *("guardrail", "assigned_by"),
    )
    search_fields = ("membership__user__username", "guardrail__name")
    ordering = ("-created_at",)
    autocomplete_fields = ("guardrail", "membership")

    def holder(self, obj: Any) -> dict[str, Any]:
        return {"membership": obj.membership_id}

    def assign(self, request: HttpRequest, obj: Any) -> None:
        assignments.assign_members(
            account_id=obj.membership.account_id,
            guardrail_id=obj.guardrail_id,
            by=operator_actor(request.user),
            assigner=request.user.pk,
            user_ids=[obj.membership.user.public_id],
        )

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        assignments.unassign_members(
            account_id=obj.membership.account_id,
            guardrail_id=obj.guardrail_id,
            by=operator_actor(request.user),
            user_ids=[obj.membership.user.public_id],
        )
