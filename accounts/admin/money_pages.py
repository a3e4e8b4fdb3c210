"""Pages of an account that move its credits or tell of them."""

from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from accounts.admin.credits import CreditsForm, Movement, RefundForm, StatementForm, TransferForm
from accounts.models import Account
from accounts.services.statements.statement_file import FORMATS, write_statement
from accounts.views.statement_download import download
from gateway.http.jsonio import format_usd

if TYPE_CHECKING:
    from gateway.admin import PageAdmin as _Page
else:
    _Page = object


class _PageTexts(NamedTuple):
    """A page's title, what the object's log says afterwards, and what the operator is told."""

    title: str
    logged: str
    told: str


_ADDING = _PageTexts("Add credits", "Added credits", "Added {} to {}.")
_REFUNDING = _PageTexts("Refund credits", "Refunded credits", "Refunded {} of {}.")
_TRANSFERRING = _PageTexts("Transfer credits", "Transferred credits", "Moved {} away from {}.")


class MoneyPages(_Page):
    """Mixed into the account's page."""

    def get_urls(self) -> list[URLPattern]:
        views = {
            "credits": self.credits_view,
            "refund": self.refund_view,
            "transfer": self.transfer_view,
            "statement": self.statement_view,
        }
        own = [
            path(
                f"<uuid:account_id>/{name}/",
                self.admin_site.admin_view(view),
                name=f"accounts_account_{name}",
            )
            for name, view in views.items()
        ]
        return [*own, *super().get_urls()]

    def has_credits_permission(self, request: HttpRequest) -> bool:
        """Moving credits is adding a ledger entry."""
        return request.user.has_perm("accounts.add_ledgerentry")

    def credits_view(self, request: HttpRequest, account_id: Any) -> HttpResponseBase:
        account = self._account(request, account_id)
        form = CreditsForm(_read_post(request))
        return self._moving(request, account, form, _ADDING)

    def refund_view(self, request: HttpRequest, account_id: Any) -> HttpResponseBase:
        account = self._account(request, account_id)
        form = RefundForm(_read_post(request))
        return self._moving(request, account, form, _REFUNDING)

    def transfer_view(self, request: HttpRequest, account_id: Any) -> HttpResponseBase:
        account = self._account(request, account_id)
        form = TransferForm(_read_post(request), account=account)
        return self._moving(request, account, form, _TRANSFERRING)

    def statement_view(self, request: HttpRequest, account_id: Any) -> HttpResponseBase:
        """The form; with its fields in the query, the statement itself."""
        if not request.user.has_perm("accounts.view_ledgerentry"):
            raise PermissionDenied
        account = get_object_or_404(Account, pk=account_id)
        form = StatementForm(request.GET if "format" in request.GET else None)
        if form.is_valid():
            written_as = FORMATS[form.cleaned_data["format"]]
            return download(write_statement(account.pk, form.period, written_as))
        return self._page(request, account, form, "Statement", method="get")

    def _account(self, request: HttpRequest, account_id: Any) -> Account:
        if not self.has_credits_permission(request):
            raise PermissionDenied
        return get_object_or_404(Account, pk=account_id)

    def _moving(
        self, request: HttpRequest, account: Account, form: Movement, words: _PageTexts
    ) -> HttpResponseBase:
        new = form.book(account=account, user=request.user) if form.is_valid() else None
        if new is None:
            return self._page(request, account, form, words.title, method="post")
        said = f"{format_usd(form.cleaned_data['amount'])} USD"
        if new:
            self.log_change(request, account, f"{words.logged}: {said}.")
            messages.success(request, words.told.format(said, account))
        else:
            messages.warning(request, f"{said} had been booked already, and count once.")
        return HttpResponseRedirect(reverse("admin:accounts_account_change", args=[account.pk]))

    def _page(
        self, request: HttpRequest, account: Account, form: Any, title: str, *, method: str
    ) -> HttpResponseBase:
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "account": account,
            "balance": format_usd(account.balance_nano),
            "form": form,
            "method": method,
        }
        return TemplateResponse(request, "admin/accounts/account/credits.html", context)


def _read_post(request: HttpRequest) -> Any:
    return request.POST if request.method == "POST" else None
