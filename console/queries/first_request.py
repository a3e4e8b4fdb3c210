"""The invitation to make a first request, and the request as soon as it is there."""

from typing import NamedTuple

from django.http import HttpRequest
from django.urls import reverse

from console.queries.explanation import explain_request
from console.queries.requests import RequestRow, find_newest
from console.queries.snippets import Snippet, list_snippets
from console.scope import Scope


class FirstRequest(NamedTuple):
    """Lines to paste, and the newest request if there is one, with where it leads and what happened
    in a sentence."""

    snippets: list[Snippet]
    newest: RequestRow | None
    link: str
    sentence: str


def build_first_request(request: HttpRequest, scope: Scope) -> FirstRequest:
    newest = find_newest(scope)
    link, sentence = "", ""
    if newest is not None and newest.is_refused:
        link = reverse("console:refused", args=[newest.pk])
        sentence = f"The gateway answered {newest.status}: {newest.refusal}"
    elif newest is not None:
        link = reverse("console:request", args=[newest.pk])
        sentence = explain_request(newest._asdict()).sentence
    snippets = list_snippets(request.build_absolute_uri("/"))
    return FirstRequest(snippets, newest, link, sentence)
