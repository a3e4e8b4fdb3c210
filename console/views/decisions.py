"""Decisions: what models decided for a view, where they abstained, and how far they can be trusted
where somebody measured it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.listing import Filter, Listing, has_words
from console.page import PageContext, page, render_page
from console.scope import Scope
from console.table import Column
from routing.catalogue.snapshot import catalogue
from routing.entities.ids import DECISIONS_PREFIX
from routing.history.models import DecisionCalibration
from routing.metering.models import Generation

# Sums are of this many of the newest requests.
REQUESTS_MAX: Final = 5_000
# Below this share of its probability on the options a model is taken to have abstained.
ABSTAINED_BELOW: Final = 0.5
_MEASURED_MAX: Final = 50
_SIDE: Final = 100
# A gap is between bars.
_BAR: Final = 9.4
_WAYS: Final = {"native": "natively", "logprobs": "by log-probabilities", "schema": "by numbers"}
COLUMNS: Final = (
    Column(
        "Model",
        lambda row: row.model,
        link=lambda row: reverse("console:model", args=[row.model]),
        order="model",
    ),
    Column("Requests", lambda row: row.requests, "count", order="requests"),
    Column("Questions", lambda row: row.questions, "count", order="questions"),
    Column("Answered", lambda row: row.ways, detail=True),
    Column("Abstained", lambda row: row.abstained_percent, "percent", order="abstained"),
    Column("Failed", lambda row: row.failure_count, "count", detail=True, order="failed"),
    Column("Temperature", lambda row: row.temperature and f"{row.temperature:g}", detail=True),
    Column("Cost", lambda row: row.charge_nano, "usd", order="cost"),
)
QUESTION_COLUMNS: Final = (
    Column("Question", lambda row: row.name, order="question"),
    Column("Model", lambda row: row.model, order="model"),
    Column("Asked", lambda row: row.times, "count", order="asked"),
    Column("On the options", lambda row: row.mean_percent, "percent", order="options"),
    Column("Abstained", lambda row: row.abstention_count, "count", order="abstained"),
)


@page
def show_decisions(request: HttpRequest, page: PageContext) -> HttpResponse:
    sums = sum_decisions(page.scope, page.period.start(page.now), page.now)
    filters = [Filter("model", "Model", has_words(lambda row: row.model))]
    models = Listing[ModelDecisions](request, COLUMNS, "Decisions", filters=filters)
    models.load_whole(sums.models)
    filters = [
        Filter("text", "Question or model", has_words(lambda row: f"{row.name} {row.model}"))
    ]
    questions = Listing[QuestionMass](
        request, QUESTION_COLUMNS, "Questions", filters=filters, name="questions"
    )
    questions.load_whole(sums.list_questions())
    for listing in (models, questions):
        if listing.is_csv:
            return listing.respond()
    context = {
        "title": "Decisions",
        "sums": sums,
        "models": models,
        "questions": questions,
        "calibrations": list_calibrations(page.scope),
    }
    return render_page(request, page, "console/decisions.html", context)


# --- What was decided -----------------------------------------------------------------------------


@dataclass
class ModelDecisions:
    """What one model decided. A question has a mass, the share of probability on its options, where
    the gateway read the answer off a chat model."""

    model: str
    temperature: float | None
    requests: int = 0
    failure_count: int = 0
    questions: int = 0
    charge_nano: int = 0
    methods: dict[str, int] = field(default_factory=dict)
    masses: dict[str, list[float]] = field(default_factory=dict)

    @property
    def ways(self) -> str:
        return ", ".join(_WAYS.get(name, name) for name in self.methods)

    @property
    def mass_count(self) -> int:
        return sum(map(len, self.masses.values()))

    @property
    def abstention_count(self) -> int:
        return sum(mass < ABSTAINED_BELOW for own in self.masses.values() for mass in own)

    @property
    def abstained_percent(self) -> float | None:
        return 100 * self.abstention_count / self.mass_count if self.mass_count else None


class QuestionMass(NamedTuple):
    """A question that one model was asked: how often, and how much of the probability was on its
    options."""

    model: str
    name: str
    times: int
    mean_percent: float
    abstention_count: int


@dataclass(frozen=True)
class DecisionSums:
    """Models, the most requests first. `is_whole` is false where older requests were left out."""

    models: list[ModelDecisions]
    is_whole: bool

    @property
    def requests(self) -> int:
        return sum(each.requests for each in self.models)

    @property
    def questions(self) -> int:
        return sum(each.questions for each in self.models)

    @property
    def failure_count(self) -> int:
        return sum(each.failure_count for each in self.models)

    @property
    def mass_count(self) -> int:
        return sum(each.mass_count for each in self.models)

    @property
    def abstention_count(self) -> int:
        return sum(each.abstention_count for each in self.models)

    def list_questions(self) -> list[QuestionMass]:
        """The most often asked first."""
        rows = [
            QuestionMass(
                each.model,
                name,
                len(masses),
                100 * sum(masses) / len(masses),
                sum(mass < ABSTAINED_BELOW for mass in masses),
            )
            for each in self.models
            for name, masses in each.masses.items()
        ]
        return sorted(rows, key=lambda row: row.times, reverse=True)


def sum_decisions(scope: Scope, start: datetime, now: datetime) -> DecisionSums:
    """The view's decisions since then, by model."""
    # Their ids begin alike and go on with the second, so that few rows of other kinds are read.
    first = f"{DECISIONS_PREFIX}{int(start.timestamp())}"
    last = f"{DECISIONS_PREFIX}{int(now.timestamp()) + 1}"
    rows = scope.filter(
        Generation.objects.filter(
            pk__gte=first, pk__lt=last, created_at__gte=start, api_type="decisions"
        )
    ).order_by("-pk")
    columns = rows.values_list("model", "status", "charge_nano", "detail")
    found = list(columns[: REQUESTS_MAX + 1])
    models: dict[str, ModelDecisions] = {}
    for model, status, charge_nano, detail in found[:REQUESTS_MAX]:
        sums = models.setdefault(model, ModelDecisions(model, _find_temperature(model)))
        record = detail.get("decisions") or {}
        sums.requests += 1
        sums.failure_count += status != 200
        sums.charge_nano += charge_nano
        sums.questions += record.get("questions", 0)
        for way, count in record.get("methods", {}).items():
            sums.methods[way] = sums.methods.get(way, 0) + count
        for name, mass in record.get("label_mass", {}).items():
            sums.masses.setdefault(name, []).append(mass)
    ranked = sorted(models.values(), key=lambda each: each.requests, reverse=True)
    return DecisionSums(ranked, len(found) <= REQUESTS_MAX)


def _find_temperature(model: str) -> float | None:
    entry = catalogue.current().models.get(model)
    return entry.decisions_temperature if entry else None


# --- Calibration ----------------------------------------------------------------------------------


class DiagramBar(NamedTuple):
    """A tenth of the answers by how sure they were, in a square of 100. It has the bar's place and
    end, the height of the line of how sure they were, and the text."""

    x: float
    y: float
    height: float
    sure_y: float
    text: str

    @property
    def end(self) -> float:
        return self.x + _BAR


class QuestionReport(NamedTuple):
    """What the answers to one question were worth, with the temperature."""

    name: str
    answers: int
    right_percent: float
    error: float


class CalibrationView(NamedTuple):
    """What was measured of one model. `diagrams` are named bars without and with the
    temperature."""

    row: DecisionCalibration
    diagrams: list[tuple[str, Mapping[str, Any], list[DiagramBar]]]
    questions: list[QuestionReport]
    is_in_force: bool


def list_calibrations(scope: Scope) -> list[CalibrationView]:
    """The newest measurement of each model that the account asked for."""
    rows = DecisionCalibration.objects.filter(account_id=scope.account.pk)
    newest: dict[str, DecisionCalibration] = {}
    for row in rows.order_by("-measured_at")[:_MEASURED_MAX]:
        newest.setdefault(row.model, row)
    views = []
    for row in newest.values():
        reports = {
            "As the model gives them": row.before,
            f"With temperature {row.temperature:g}": row.after,
        }
        diagrams = [(name, of, list(_draw_bars(of["bins"]))) for name, of in reports.items()]
        questions = [
            QuestionReport(name, own["answers"], 100 * own["accuracy"], own["calibration_error"])
            for name, own in sorted(row.questions.items())
        ]
        is_in_force = _find_temperature(row.model) == row.temperature
        views.append(CalibrationView(row, diagrams, questions, is_in_force))
    return views


def _draw_bars(bins: Sequence[Mapping[str, Any]]) -> Iterator[DiagramBar]:
    width = _SIDE / len(bins)
    for at, each in enumerate(bins):
        if each["answers"]:
            height = each["right"] * _SIDE
            yield DiagramBar(
                round(at * width, 2),
                round(_SIDE - height, 2),
                round(height, 2),
                round(_SIDE - each["sure"] * _SIDE, 2),
                f"{each['answers']} answers, {each['sure']:.0%} sure, {each['right']:.0%} right",
            )
