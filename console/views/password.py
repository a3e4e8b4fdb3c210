"""A person's own password: changing it, or choosing the first one."""

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.decorators import reauthentication_required
from allauth.usersessions.models import UserSession
from django import forms
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.password_validation import validate_password
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts.models import User
from accounts.people.oidc import list_forced_providers
from accounts.people.records import record_sign_in
from accounts.services.records import operator_actor


def _build_field(label: str, autocomplete: str, help_text: str = "") -> forms.CharField:
    widget = forms.PasswordInput(attrs={"autocomplete": autocomplete})
    return forms.CharField(label=label, strip=False, widget=widget, help_text=help_text)


class PasswordForm(forms.Form):
    """The password of now, where there is one, and twice the new one."""

    old = _build_field("Your password of now", "current-password")
    new = _build_field("The new password", "new-password", "8 characters at least.")
    again = _build_field("The new password again", "new-password")

    def __init__(self, user: User, data: Any = None) -> None:
        super().__init__(data)
        self._user = user
        if not user.has_usable_password():
            del self.fields["old"]

    def clean(self) -> dict[str, Any]:
        """Whether the old one is right is asked last: each such question counts as a try."""
        said: dict[str, Any] = super().clean() or {}
        if self.errors:
            return said
        if said["new"] != said["again"]:
            self.add_error("again", "This is another one than above.")
            return said
        try:
            validate_password(said["new"], self._user)
        except forms.ValidationError as error:
            self.add_error("new", error)
            return said
        if "old" in said and not get_adapter().reauthenticate(self._user, said["old"]):
            self.add_error("old", "This is not it. After several tries, wait a little.")
        return said


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
@reauthentication_required(  # type: ignore[untyped-decorator]  # allauth's.
    enabled=lambda request: not request.user.has_usable_password()
)
def change_password(request: HttpRequest) -> HttpResponse:
    """Set it, which ends all other sessions and links of the person."""
    user: Any = request.user
    if not may_have_password(user):
        raise Http404
    form = PasswordForm(user, request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        status = 400 if form.is_bound else 200
        return render(request, "console/password.html", {"form": form}, status=status)
    user.set_password(form.cleaned_data["new"])
    user.save(update_fields=["password"])
    # Sessions that began with the old one are known by it.
    update_session_auth_hash(request, user)
    UserSession.objects.create_from_request(request)
    sessions = UserSession.objects.filter(user=user)
    for session in sessions.exclude(session_key=request.session.session_key):
        session.end()
    record_sign_in(request, "password changed", user=user, by=operator_actor(user))
    messages.success(request, "Your password is changed. All other sessions have ended.")
    return HttpResponseRedirect(reverse("mfa_index"))


def may_have_password(user: User) -> bool:
    """Not of whom a provider lets in, who would still come in once it does so no more; an operator
    keeps one for the day on which it is away."""
    if user.is_staff:
        return True
    if list_forced_providers(user.username, user.email):
        return False
    return user.has_usable_password() or not user.identities.exists()
