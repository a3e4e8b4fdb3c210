"""The front page for those who are not signed in, signing in by password or by link, and out."""

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import login, logout
from django.contrib.auth.forms import AuthenticationForm
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST

from console.page import PageContext, page, render_open_page
from console.playground_keys import end_playground_keys
from console.sign_in_links import find_linked_user, sign_in_by_link
from console.views.home import show_home
from gateway.http.errors import MethodNotAllowed, UnknownPath
from gateway.http.responses import error_response


def front_page(request: HttpRequest) -> HttpResponseBase:
    """`/`: home for people who are signed in, a sign-in form for others. Programs that ask for no
    HTML get the API's own answer to an unknown path."""
    if not _wants_html(request):
        return error_response(UnknownPath())
    if request.method not in ("GET", "HEAD"):
        return error_response(MethodNotAllowed(headers={"Allow": "GET, HEAD"}))
    if request.user.is_authenticated:
        return show_home(request)
    return _show_form(request, AuthenticationForm(request))


@require_POST
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """By name and password, as the admin does, with the same bound on guesses."""
    form = AuthenticationForm(request, data=request.POST)
    if not form.is_valid():
        return _show_form(request, form, status=400)
    login(request, form.get_user())
    return HttpResponseRedirect(_find_target(request))


@require_http_methods(["GET", "HEAD", "POST"])
def link(request: HttpRequest, public_id: str, token: str) -> HttpResponseBase:
    """A one-time link. Looking at it changes nothing: mail programs and browsers look ahead."""
    if request.method == "POST":
        if sign_in_by_link(request, public_id, token):
            return HttpResponseRedirect(reverse("console:home"))
        return render_open_page(request, "console/link_used.html", {}, status=410)
    user = find_linked_user(public_id, token)
    if user is None:
        return render_open_page(request, "console/link_used.html", {}, status=410)
    return render_open_page(request, "console/link.html", {"person": user})


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        end_playground_keys(request, datetime.now(UTC))
    logout(request)
    return HttpResponseRedirect(reverse("console:home"))


@page
def show_nothing(request: HttpRequest, page: PageContext) -> HttpResponse:
    """Where no page is. `/console` is where people look for home."""
    if request.path_info.rstrip("/") == "/console":
        return HttpResponseRedirect(reverse("console:home"))
    raise Http404


def _show_form(
    request: HttpRequest, form: AuthenticationForm, *, status: int = 200
) -> HttpResponse:
    target = request.POST.get("next") or request.GET.get("next", "")
    context: dict[str, Any] = {"form": form, "next": target}
    return render_open_page(request, "console/sign_in.html", context, status=status)


def _find_target(request: HttpRequest) -> str:
    """Where the form says to go on, if that is a page of ours."""
    target = request.POST.get("next", "")
    ours = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return target if ours else reverse("console:home")


def _wants_html(request: HttpRequest) -> bool:
    return "text/html" in request.headers.get("Accept", "")
