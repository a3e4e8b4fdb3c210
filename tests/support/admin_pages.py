"""The admin's pages, and those who may see them."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Permission
from django.urls import reverse

from accounts.models import Account, User
from routing.catalogue.models import Endpoint
from routing.metering.models import Generation


def page(model: type[Any], kind: str = "changelist", *args: Any) -> str:
    """The path of one of a model's admin pages."""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{kind}", args=args)


def pages() -> list[str]:
    """Every page of the admin that a GET shows, for the first row of each table."""
    found = [reverse("admin:index")]
    for model in operated_models():
        found.append(page(model))
        row = model._default_manager.first()
        if row is not None:
            found += [page(model, kind, row.pk) for kind in ("change", "history", "delete")]
        found.append(page(model, "add"))
    found.append(page(Generation, "export"))
    charged = Generation.objects.first()
    if charged:
        found.append(page(Generation, "reverse", charged.pk))
    account, first = Account.objects.first(), Endpoint.objects.first()
    if account and first:
        kinds = ("credits", "refund", "transfer", "statement")
        found += [page(Account, kind, account.pk) for kind in kinds]
        found.append(page(Endpoint, "trial", first.pk))
    return found


def operated_models() -> list[type[Any]]:
    """The models of ours that have pages."""
    ours = ("accounts", "routing", "interns")
    page(User)  # With the addresses come the pages.
    return [model for model in admin.site._registry if model._meta.app_label in ours]


def operator(username: str = "operator", *, permissions: str = "") -> User:
    """A member of staff with the permissions whose codenames begin so."""
    user = User.objects.create_user(username, password="a password", is_staff=True)
    if permissions:
        user.user_permissions.set(Permission.objects.filter(codename__startswith=permissions))
    return user


def read_form(response: Any) -> dict[str, Any]:
    """What a browser would send back of a page that nobody touched, without its lists of rows."""
    form = response.context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    known = {name: value for name, value in values.items() if value is not None}
    typed = {name: value for name, value in known.items() if value is not False}
    # Django notes what it showed beside a field whose default is computed.
    noted = [name for name in typed if form[name].field.show_hidden_initial]
    typed |= {f"initial-{name}": typed[name] for name in noted}
    for formset in response.context["inline_admin_formsets"]:
        prefix = formset.formset.prefix
        typed |= {f"{prefix}-{part}": "0" for part in ("TOTAL_FORMS", "INITIAL_FORMS")}
    return typed
