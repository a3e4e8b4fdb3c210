"""What there is to ask: questions that are still open, as calls to one endpoint."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, NamedTuple

from gateway.http.jsonio import JsonObject, dumps
from routing.decisions import logprobs, native, schema
from routing.decisions.question import Judgement, TypedQuestion, render_text
from routing.decisions.splitting import QuestionLimits, QuestionSplit, split_question
from routing.entities.entries import EndpointEntry, ModelEntry
from routing.formats.chat.facts import utf8_bytes
from routing.formats.decisions import read_questions
from routing.metering.usage import Demand
from routing.upstreams.decisions import BlamedQuestions
from routing.upstreams.wires import get_wire

# What a native answer takes at the most: itself, and each label with its number.
_TOKENS_PER_ANSWER: Final = 64
_TOKENS_PER_LABEL: Final = 32


class QuestionRef(NamedTuple):
    """Which part of which question."""

    question: int
    part: int


@dataclass(frozen=True, slots=True)
class UpstreamQuery:
    """One call: the parts it asks for, under their names, and how large it is.

    `split` are the names of parts that no caller ever asked like that: pieces of a question. Other
    questions keep their names. `is_whole` says that all of the request's questions are in it, each
    as it was asked.
    """

    refs: tuple[QuestionRef, ...]
    parts: Mapping[str, TypedQuestion]
    demand: Demand
    split: frozenset[str] = frozenset()
    is_whole: bool = False

    def is_of_caller(self, blamed: BlamedQuestions) -> bool:
        """Whether what an upstream finds wrong with these questions is wrong with the caller's."""
        return any(map(self._is_own, blamed)) if blamed else not self.split

    def _is_own(self, name: str | None) -> bool:
        if name is None:
            return self.is_whole
        return name not in self.split if name in self.parts else not self.split


class DecisionPlan:
    """The questions of one request in their order. Knows nothing of the call it belongs to."""

    def __init__(self, body: Mapping[str, Any], models: Sequence[ModelEntry]) -> None:
        questions = read_questions(body)
        self.names = tuple(questions)
        self.state: Any = body["state"]
        self.state_text = render_text(self.state)
        self._state_bytes = utf8_bytes(self.state_text)
        self._questions = tuple(questions.values())
        self._reasoners = frozenset([each.id for each in models if each.must_reason])
        self._made: dict[tuple[Any, ...], list[UpstreamQuery]] = {}
        self._splits: dict[tuple[int, QuestionLimits], QuestionSplit] = {}
        self.judged: dict[int, Judgement] = {}
        # By which way each was, as `router_metadata` calls it.
        self.ways: dict[int, str] = {}

    @property
    def is_done(self) -> bool:
        return len(self.judged) == len(self._questions)

    def queries(self, endpoint: EndpointEntry) -> list[UpstreamQuery]:
        """The calls that are left to make, were this endpoint to answer all of them."""
        key = (
            *(endpoint.decides, self.must_reason(endpoint), endpoint.decisions_max_questions),
            *(limits_of(endpoint), len(self.judged)),
        )
        if key not in self._made:
            self._made[key] = list(self._build_queries(endpoint))
        return self._made[key]

    def demands(self, endpoint: EndpointEntry) -> Sequence[Demand]:
        return [query.demand for query in self.queries(endpoint)]

    def must_reason(self, endpoint: EndpointEntry) -> bool:
        """Whether the endpoint's model cannot answer without reasoning."""
        return endpoint.model_id in self._reasoners

    def settle(
        self, endpoint: EndpointEntry, parts: Mapping[QuestionRef, Judgement]
    ) -> dict[int, Judgement]:
        """The questions of which every part was judged."""
        limits = limits_of(endpoint)
        settled = {}
        for number in dict.fromkeys(ref.question for ref in parts):
            whole = self._split(number, limits)
            refs = [QuestionRef(number, part) for part in range(len(whole.parts))]
            if all(ref in parts for ref in refs):
                settled[number] = whole.merge([parts[ref] for ref in refs])
        return settled

    def _split(self, number: int, limits: QuestionLimits) -> QuestionSplit:
        key = (number, limits)
        if key not in self._splits:
            self._splits[key] = split_question(self._questions[number], limits)
        return self._splits[key]

    def _build_queries(self, endpoint: EndpointEntry) -> Iterator[UpstreamQuery]:
        limits = limits_of(endpoint)
        open_ = [number for number in range(len(self._questions)) if number not in self.judged]
        splits = {number: self._split(number, limits) for number in open_}
        parts = {
            QuestionRef(number, index): part
            for number in open_
            for index, part in enumerate(splits[number].parts)
        }
        if endpoint.decides == "native":
            yield from self._build_batches(parts, endpoint.decisions_max_questions or len(parts))
            return
        for ref, part in parts.items():
            body = self.chat_body(part, endpoint, state="")
            texts = [utf8_bytes(message["content"]) for message in body["messages"]]
            if form := body.get("response_format"):
                texts.append(len(dumps(form)))
            size = self._state_bytes + sum(texts)
            demand = Demand(size, len(body["messages"]), 0, 0, body["max_tokens"])
            yield UpstreamQuery((ref,), {"": part}, demand)

    def chat_body(
        self, part: TypedQuestion, endpoint: EndpointEntry, *, state: str | None = None
    ) -> JsonObject:
        """What a chat endpoint is asked, in the shape of chat and without its model."""
        state = self.state_text if state is None else state
        if endpoint.decides == "logprobs":
            body = logprobs.build_request(state, part)
        else:
            body = schema.build_request(state, part, reasons=self.must_reason(endpoint))
        # Only the first token is looked at.
        least = get_wire(endpoint.wire_kind).output_tokens_min
        return body | {"max_tokens": max(least, body["max_tokens"])}

    def _build_batches(
        self, parts: Mapping[QuestionRef, TypedQuestion], most: int
    ) -> Iterator[UpstreamQuery]:
        """Questions in calls of as many as the upstream takes at once."""
        refs = list(parts)
        split = {ref.question for ref in refs if ref.part}
        for start in range(0, len(refs), most):
            batch = tuple(refs[start : start + most])
            names = dict(zip(batch, self._name_parts(batch, split), strict=True))
            named_parts = {name: parts[ref] for ref, name in names.items()}
            pieces = frozenset(name for ref, name in names.items() if ref.question in split)
            is_whole = not split and len(batch) == len(self._questions)
            asked = {name: native.serialize_question(part) for name, part in named_parts.items()}
            labels = [label for part in named_parts.values() for label in part.labels]
            tokens = sum(map(utf8_bytes, labels)) + _TOKENS_PER_LABEL * len(labels)
            output = tokens + _TOKENS_PER_ANSWER * len(named_parts)
            demand = Demand(self._state_bytes + len(dumps(asked)), 1, 0, 0, output)
            yield UpstreamQuery(batch, named_parts, demand, pieces, is_whole)

    def _name_parts(self, batch: Sequence[QuestionRef], split: Set[int]) -> Iterator[str]:
        """A question's own name, and numbers that are no question's name for pieces of one."""
        numbers = (name for name in map(str, count()) if name not in self.names)
        for ref in batch:
            yield next(numbers) if ref.question in split else self.names[ref.question]


def limits_of(endpoint: EndpointEntry) -> QuestionLimits:
    """How many labels the endpoint is asked about at once."""
    if endpoint.decides == "native":
        return QuestionLimits(endpoint.decisions_max_options, endpoint.decisions_max_levels)
    return QuestionLimits(
        logprobs.LABELS_MAX if endpoint.decides == "logprobs" else schema.LABELS_MAX
    )
