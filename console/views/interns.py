"""Interns: the board, making one, and one of them with what can be done to it."""

from functools import partial
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.validators import RegexValidator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.admin.fields import ModelField
from accounts.caller import read_caller
from accounts.keystring import hash_key
from accounts.models import Account
from console.forms.workspace import fill_workspaces
from console.listing import Filter, Listing
from console.page import PageContext, keep_query, page, render_page
from console.playground_keys import find_playground_key
from console.queries.interns import (
    InternCard,
    InternDetail,
    InternMove,
    build_cards,
    build_moves,
    find_intern,
    list_board,
    select_interns,
)
from console.queries.models import list_permitted_models
from console.scope import Scope
from console.table import Column
from console.words import Badge
from interns import operations
from interns.creation import NewIntern, create_intern
from interns.models import ChatRun, Intern, Status
from interns.models.intern import (
    DESCRIPTION_CHARS_MAX,
    INSTRUCTIONS_CHARS_MAX,
    MODEL_CHARS_MAX,
    NAME_CHARS_MAX,
)
from interns.views.schemas.intern import NAME_CHARS_MIN, NAME_PATTERN

_NAME_HELP: Final = "Small letters and digits, with single hyphens between, such as notes-2."


class InternForm(forms.Form):
    """What an intern is for, and whom it asks."""

    description = forms.CharField(
        label="What it is for", required=False, max_length=DESCRIPTION_CHARS_MAX
    )
    model = ModelField(
        label="Model",
        required=False,
        max_length=MODEL_CHARS_MAX,
        widget=forms.TextInput(attrs={"list": "models"}),
        help_text="Empty: the default model of its workspace.",
    )
    instructions = forms.CharField(
        label="Standing instructions",
        required=False,
        max_length=INSTRUCTIONS_CHARS_MAX,
        widget=forms.Textarea(attrs={"rows": 5}),
    )

    def read_changes(self) -> dict[str, Any]:
        """The columns of a changed intern."""
        given = self.cleaned_data
        return {
            "description": given["description"],
            "model": given["model"] or None,
            "instructions": given["instructions"] or None,
        }


class NewInternForm(InternForm):
    """The same of a new one, with its name and its workspace."""

    name = forms.CharField(
        label="Name",
        min_length=NAME_CHARS_MIN,
        max_length=NAME_CHARS_MAX,
        validators=[RegexValidator(NAME_PATTERN, _NAME_HELP)],
        help_text=_NAME_HELP,
    )
    workspace = forms.ChoiceField(label="Workspace")

    field_order = ("name", "workspace", "model", "description", "instructions")

    def __init__(self, scope: Scope, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.workspaces = fill_workspaces(self.fields["workspace"], scope)

    def clean(self) -> dict[str, Any]:
        """One that knows no model to ask boots, and answers nothing."""
        given: dict[str, Any] = super().clean() or {}
        workspace = self.workspaces.get(given.get("workspace", ""))
        if workspace and given.get("model") == "" and not workspace.default_text_model:
            self.add_error("model", f"{workspace.name} has no default model: name one here.")
        return given

    def read(self) -> NewIntern:
        return NewIntern(name=self.cleaned_data["name"], provision=True, **self.read_changes())


_FIELDS: Final = {"name": "name", "status": "status", "since": "status_since", "made": "created_at"}
COLUMNS: Final = (
    Column(
        "Name", lambda card: card.intern.name, link=lambda card: _link(card.intern), order="name"
    ),
    Column("Status", lambda card: card.status, "badge", order="status"),
    Column("Now", lambda card: card.doing, detail=True),
    Column("Workspace", lambda card: card.intern.workspace.name),
    Column("Person", lambda card: card.intern.creator.username, detail=True),
    Column("Spent", lambda card: card.spend.spent_nano, "usd"),
    Column("Budget", lambda card: card.spend.budget_nano, "usd"),
    Column("Since", lambda card: card.intern.status_since, "time", order="since"),
    Column("Made", lambda card: card.intern.created_at, "time", minor=True, order="made"),
)
_RUN_TONES: Final = {ChatRun.State.COMPLETED: "good", ChatRun.State.FAILED: "bad"}
MOVES: Final = (
    Column("Time", lambda move: move.row.at, "time", order="time"),
    Column("What", lambda move: move.words),
    Column("Why", lambda move: move.why[:200]),
    Column("By", lambda move: move.by, detail=True),
)


@page
def show_interns(request: HttpRequest, page: PageContext) -> HttpResponse:
    context: dict[str, Any] = {
        "title": "Interns",
        "may_make": _may_make(page.scope),
        "is_on": page.scope.account.interns_enabled,
    }
    if request.GET.get("as") == "list":
        filters = [Filter("text", "Name"), Filter("status", "Status", choices=Status.choices)]
        listing = Listing[InternCard](request, COLUMNS, "Interns", filters=filters, order="-made")
        rows = select_interns(page.scope, listing.wanted["text"], listing.wanted["status"])
        listing.load_query(rows, _FIELDS, partial(build_cards, now=page.now))
        if listing.is_csv:
            return listing.respond()
        context |= {"list": listing, "is_empty": listing.is_empty}
        return render_page(request, page, "console/interns.html", context)
    board = list_board(page.scope, page.now)
    context |= {
        "board": board,
        "is_empty": not any(column.cards for column in board),
        "live_url": keep_query(request, part="board"),
    }
    is_part = request.GET.get("part") == "board"
    template = "console/parts/intern_board.html" if is_part else "console/interns.html"
    return render_page(request, page, template, context)


@page
def make_intern(request: HttpRequest, page: PageContext) -> HttpResponse:
    """It is provisioned at once."""
    if not _may_make(page.scope):
        raise Http404
    form = NewInternForm(page.scope, request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        context = {"title": "New intern", "nav": "Interns", "form": form}
        context["models"] = list_permitted_models(page.scope.account)
        status = 400 if form.is_bound else 200
        return render_page(request, page, "console/new_intern.html", context, status=status)
    workspace = form.workspaces[form.cleaned_data["workspace"]]
    # The person as the API sees them: with the key of their playground.
    key = find_playground_key(request, page.scope, workspace, page.now)
    caller = read_caller(hash_key(key.string))
    assert caller is not None
    intern, _ = create_intern(caller, form.read(), key=None)
    messages.success(request, f"{intern.name} was made and is being provisioned.")
    return HttpResponseRedirect(_link(intern))


@page
def show_intern(request: HttpRequest, page: PageContext, intern_id: UUID) -> HttpResponse:
    return _render(request, page, find_intern(page.scope, intern_id, page.now))


@require_POST
@page
def change_intern(request: HttpRequest, page: PageContext, intern_id: UUID) -> HttpResponse:
    """Say what it is for, which model it asks and what it always keeps in mind."""
    detail = _find_editable(page, intern_id)
    form = InternForm(request.POST)
    if not form.is_valid():
        return _render(request, page, detail, form)
    operations.update_intern(intern_id, form.read_changes())
    messages.success(
        request, "Saved. It holds from its next boot: suspend and resume one that runs."
    )
    return HttpResponseRedirect(_link(detail.intern))


def _render(
    request: HttpRequest, page: PageContext, detail: InternDetail, wrong: InternForm | None = None
) -> HttpResponse:
    """The page of an intern, or what it does now; `wrong` is a form that was not saved."""
    intern = detail.intern
    context = {"title": intern.name, "detail": detail, "intern": intern, "card": detail.card}
    if request.GET.get("part") == "now":
        return render_page(request, page, "console/parts/intern_now.html", context)
    listings = _list_turns(request, detail), _list_moves(request, detail)
    for listing in listings:
        if listing.is_csv:
            return listing.respond()
    session_id, turns, question = None, None, None
    if detail.may_talk:
        session_id = detail.find_session(request.GET.get("session"))
        turns = detail.read_turns(session_id) if session_id else []
        question = detail.question
    fields = ("description", "model", "instructions")
    form = wrong or InternForm(initial={name: getattr(intern, name) for name in fields})
    context |= {
        "nav": "Interns",
        "runs": listings[0],
        "moves": listings[1],
        "may_write": _may_write(detail.scope.account) and detail.may_edit,
        "form": form,
        "is_wrong": wrong is not None,
        "models": list_permitted_models(detail.scope.account),
        "turns": turns,
        "talk": {
            "session": session_id,
            "intern": str(intern.pk),
            "workspace": str(intern.workspace_id),
            "question": question
            and {
                "id": question.tool_call_id,
                "session": question.run.session.session_id,
                "asked": question.arguments,
            },
        },
    }
    status = 400 if wrong else 200
    return render_page(request, page, "console/intern.html", context, status=status)


def _list_turns(request: HttpRequest, detail: InternDetail) -> Listing[ChatRun]:
    def link(run: ChatRun) -> str:
        """To the conversation, for who may read it here."""
        session = urlencode({"session": run.session.session_id})
        return f"{_link(detail.intern)}?{session}#talk" if detail.may_talk else ""

    columns = (
        Column("Began", lambda run: run.started_at, "time", order="time"),
        Column("By", lambda run: run.by and run.by.username),
        Column("State", _describe_run, "badge", order="state"),
        Column("Conversation", lambda run: run.session.session_id[:18], "code", link=link),
        Column("Tokens", lambda run: run.usage and run.usage.get("total_tokens"), "count"),
    )
    filters = [Filter("state", "State", choices=ChatRun.State.choices)]
    listing = Listing[ChatRun](
        request, columns, "Turns", filters=filters, order="-time", name="turns"
    )
    state = listing.wanted["state"]
    rows = detail.runs.filter(state=state) if state else detail.runs
    listing.load_query(rows, {"time": "started_at", "state": "state"})
    return listing


def _describe_run(run: ChatRun) -> Badge:
    tone = _RUN_TONES.get(ChatRun.State(run.state), "plain")
    word = run.ended_because if run.state == ChatRun.State.FAILED else ""
    return Badge(tone, (word or run.get_state_display().lower()).replace("_", " "))


def _list_moves(request: HttpRequest, detail: InternDetail) -> Listing[InternMove]:
    filters = [Filter("text", "Why")]
    listing = Listing[InternMove](
        request, MOVES, "History", filters=filters, order="-time", name="history"
    )
    text = listing.wanted["text"]
    rows = detail.moves.filter(why__icontains=text) if text else detail.moves
    listing.load_query(rows, {"time": "pk"}, build_moves)
    return listing


@require_POST
@page
def operate_intern(request: HttpRequest, page: PageContext, intern_id: UUID) -> HttpResponse:
    """Provision, suspend or delete it."""
    detail = _find_editable(page, intern_id)
    intern, by = detail.intern, f"{page.scope.user.username} in the console"
    wanted = request.POST.get("operation")
    if wanted == "provision":
        operations.provision(intern.pk, by=by)
        messages.success(request, f"{intern.name} is being provisioned.")
    elif wanted == "suspend":
        operations.begin_suspend(intern.pk, by=by)
        messages.success(request, f"{intern.name} is being suspended. Its disk stays.")
    elif wanted == "delete" and request.POST.get("name") == intern.name:
        operations.delete(intern.pk, by=by, acknowledged="loss" in request.POST)
        messages.warning(request, f"{intern.name} is being deleted.")
        return HttpResponseRedirect(reverse("console:interns"))
    elif wanted == "delete":
        messages.error(request, "Nothing was deleted: the name that was typed is another one.")
    else:
        raise Http404
    return HttpResponseRedirect(_link(intern))


def _find_editable(page: PageContext, intern_id: UUID) -> InternDetail:
    detail = find_intern(page.scope, intern_id, page.now)
    if not (_may_write(detail.scope.account) and detail.may_edit):
        raise Http404
    return detail


def _may_write(account: Account) -> bool:
    """Whether operators let the account keep interns, and change them."""
    return account.interns_enabled and account.intern_writes_enabled


def _may_make(scope: Scope) -> bool:
    """An intern has an owner, who is a member of the account."""
    return _may_write(scope.account) and scope.is_member


def _link(intern: Intern) -> str:
    return reverse("console:intern", args=[intern.pk])
