"""People of an account: who belongs to it in which role, what they spent, adding and removing."""

from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.models import Membership, User
from accounts.people.adapter import list_factors, may_have_password
from accounts.people.records import record_sign_in
from accounts.roles import Action
from accounts.services.organization import add_new_person, change_role, remove_member
from accounts.services.records import operator_actor
from console.listing import Filter, Listing
from console.page import PageContext, page, render_page
from console.queries.workspaces import Person, list_people, load_person
from console.scope import Scope
from console.sign_in_links import build_link_path
from console.table import Column
from gateway.http.errors import PermissionDenied


class OwnersDecide(PermissionDenied):
    message = "Only owners of the account and operators decide who its owners are"


COLUMNS: Final = (
    Column(
        "Name",
        lambda row: row.membership.user.username,
        link=lambda row: reverse("console:person", args=[row.membership.user.public_id]),
        order="name",
    ),
    Column("E-mail", lambda row: row.membership.user.email, detail=True),
    Column("Role", lambda row: row.role, "badge"),
    Column("Workspaces", lambda row: row.workspaces),
    Column("Keys", lambda row: row.keys, "count"),
    Column("Spent", lambda row: row.spend_nano, "usd", order="spent"),
    Column(
        "Last sign-in",
        lambda row: row.membership.user.last_login,
        "time",
        detail=True,
        order="seen",
    ),
    Column("Here since", lambda row: row.membership.created_at, "time", minor=True, order="joined"),
)


class NewPersonForm(forms.Form):
    """Somebody who has never signed in."""

    username = forms.CharField(
        max_length=150, label="User name", validators=[UnicodeUsernameValidator()]
    )
    role = forms.ChoiceField(
        label="Role",
        choices=Membership.Role.choices,
        initial=Membership.Role.MEMBER,
        help_text="Admins see and change all of the account.",
    )


@page
def show_people(request: HttpRequest, page: PageContext) -> HttpResponse:
    _require_admin(page.scope)
    filters = [Filter("text", "User name or e-mail")]
    listing = Listing[Person](request, COLUMNS, "People", filters=filters, order="name")
    start, text = page.period.start(page.now), listing.wanted["text"]
    listing.load(partial(list_people, page.scope, text, start, page.now, listing.order))
    if listing.is_csv:
        return listing.respond()
    context = {"title": "People", "list": listing}
    return render_page(request, page, "console/people.html", context)


@page
def add_person(request: HttpRequest, page: PageContext) -> HttpResponse:
    """Add somebody new; the answer has a link, shown once, that signs them in once."""
    _require_admin(page.scope)
    form = NewPersonForm(request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        context = {"title": "New person", "nav": "People", "form": form}
        status = 400 if form.is_bound else 200
        return render_page(request, page, "console/new_person.html", context, status=status)
    _require_right_to(page.scope, form.cleaned_data["role"])
    user = add_new_person(
        account_id=page.scope.account.pk, **form.cleaned_data, by=operator_actor(request.user)
    )
    return _show_link(request, page, user, f"{user.username} belongs to the account")


@page
def show_person(request: HttpRequest, page: PageContext, user_id: str) -> HttpResponse:
    membership = _find(page, user_id)
    context = {
        "title": membership.user.username,
        "nav": "People",
        "membership": membership,
        "row": load_person(page.scope, membership, page.period.start(page.now), page.now),
        "roles": Membership.Role.choices,
        "needs_link": needs_link(membership),
    }
    return render_page(request, page, "console/person.html", context)


@require_POST
@page
def change_person(request: HttpRequest, page: PageContext, user_id: str) -> HttpResponse:
    """Give somebody another role, or let them go with the keys they made."""
    membership, to = _find(page, user_id), request.POST.get("to", "")
    _require_right_to(page.scope, membership.role, to)
    place = {
        "account_id": page.scope.account.pk,
        "user_id": membership.user.public_id,
        "by": operator_actor(request.user),
    }
    if to == "removed":
        remove_member(**place)
        messages.success(request, f"{membership.user.username} left; their keys are disabled.")
        return HttpResponseRedirect(reverse("console:people"))
    if to not in Membership.Role.values:
        raise Http404
    change_role(**place, role=to)
    messages.success(request, "Saved.")
    return HttpResponseRedirect(reverse("console:person", args=[user_id]))


@require_POST
@page
def renew_link(request: HttpRequest, page: PageContext, user_id: str) -> HttpResponse:
    """Another link for somebody who has no other way in, as one lasts for an hour."""
    membership = _find(page, user_id)
    _require_right_to(page.scope, membership.role)
    user = membership.user
    if not needs_link(membership):
        raise Http404
    record_sign_in(request, "link made", user=user, by=operator_actor(request.user))
    return _show_link(request, page, user, f"A new link for {user.username}")


def _show_link(request: HttpRequest, page: PageContext, user: User, title: str) -> HttpResponse:
    link = request.build_absolute_uri(build_link_path(user))
    context = {"title": title, "nav": "People", "link": link}
    return render_page(request, page, "console/person_link.html", context)


def needs_link(membership: Any) -> bool:
    """Whether somebody of this account alone, as `_find` found them, could not come in without
    one."""
    user = membership.user
    if membership.is_elsewhere or user.is_staff or not user.is_active:
        return False
    may_choose = not user.has_usable_password() and may_have_password(user)
    return may_choose and not list_factors(user)


def _find(page: PageContext, user_id: str) -> Any:
    """The membership, with `is_elsewhere`: whether they belong to another account too."""
    _require_admin(page.scope)
    others = Membership.objects.filter(user=OuterRef("user")).exclude(pk=OuterRef("pk"))
    members = Membership.objects.filter(account=page.scope.account).select_related("user")
    members = members.annotate(is_elsewhere=Exists(others))
    return get_object_or_404(members, user__public_id=user_id)


def _require_admin(scope: Scope) -> None:
    if not scope.rules_account:
        raise Http404


def _require_right_to(scope: Scope, *roles: str) -> None:
    """Who is an owner is for owners to decide."""
    if Membership.Role.OWNER in roles and not scope.allows(Action.OWNERS):
        raise OwnersDecide
