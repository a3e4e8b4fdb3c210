"""The invitation to make a first request, and the request as soon as it is there."""

from typing import NamedTuple

from django.http import HttpRequest
from django.urls import reverse

from console.queries.explanation import explain_request
from console.queries.requests import RequestRow, find_newest
from console.scope import Scope
from routing.catalogue.snapshot import catalogue
from routing.upstreams.decisions import KIND as DECISIONS


class FirstRequest(NamedTuple):
    """The address of the API, a model to ask, and the newest request if there is one, with where
    it leads and what happened in a sentence."""

    base_url: str
    model: str
    newest: RequestRow | None
    link: str
    sentence: str


def build_first_request(request: HttpRequest, scope: Scope) -> FirstRequest:
    newest = find_newest(scope)
    link, sentence = "", ""
    if newest is not None:
        link = reverse("console:request", args=[newest.pk])
        sentence = explain_request(newest._asdict()).sentence
    base_url = request.build_absolute_uri("/api/v1")
    return FirstRequest(base_url, _choose_model(), newest, link, sentence)


def _choose_model() -> str:
    """The first listed model that answers in text."""
    for model in catalogue.current().listing[::-1]:
        answers = any(each.provider.kind != DECISIONS for each in model.by_price)
        if answers and "text" in model.output_modalities:
            return model.id
    return "author/model"
