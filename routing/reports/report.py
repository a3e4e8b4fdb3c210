"""How one inference request ended, as a value: what log lines, metrics, spans, destinations and the
records of failed requests are made from."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from accounts.caller import Caller
from gateway.http.jsonio import JsonObject
from gateway.http.request_id import RequestIdentity
from gateway.http.tags import NO_TAGS, Tags
from routing.formats.caller import ToolActivity
from routing.history.content_draft import ContentDraft
from routing.ledger.tickets import Ticket
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.errors import ErrorFacts


class Phases(NamedTuple):
    """When a request came in, its planning began and ended, and its hold was asked for, in
    monotonic seconds; None where that is not so."""

    received: float | None = None
    planning_began: float | None = None
    planned: float | None = None
    hold_asked: float | None = None


NO_PHASES: Final = Phases()


def read_phases(progress: RequestProgress) -> Phases:
    return Phases(
        progress.received,
        progress.planning_began,
        progress.context.started,
        progress.hold_asked,
    )


class RequestReport(NamedTuple):
    """One request that was answered, failed or refused.

    `started` and `ended` are monotonic seconds. `caller` is None where nobody knows the key;
    then `key_prefix` has the first characters of the credential, "" where there was none. `record`
    holds the columns of the generation, None where no upstream was asked, and `settlement` is its
    place in the ledger's queue. `trace` is the object of that name in the request. `plan` is that
    of a refused request as JSON text, in the form of `routing.selection.trace`, "" where it had
    none. `is_counted` says that its source fails too often for a record of each. `tool_calls` are
    those of server tools, and `ended_calls` counts them by tool and by whether they failed, with
    those of models that tools asked. `submodel_attempts` are those at such models, one sequence for
    each time that one was asked. `is_repeat` says that an earlier answer was given once more.
    """

    ended_at: datetime
    started: float
    ended: float
    identity: RequestIdentity | None
    caller: Caller | None
    format: str
    requested_model: str
    streamed: bool
    status: int
    error: ErrorFacts | None = None
    generation_id: str | None = None
    record: JsonObject | None = None
    attempts: Sequence[Attempt] = ()
    content: ContentDraft | None = None
    trace: JsonObject | None = None
    region: str = "global"
    address: str = ""
    key_prefix: str = ""
    plan: str = ""
    is_counted: bool = False
    phases: Phases = NO_PHASES
    settlement: Ticket | None = None
    tool_calls: Sequence[ToolActivity] = ()
    ended_calls: Mapping[tuple[str, bool], int] = {}
    submodel_attempts: Sequence[Sequence[Attempt]] = ()
    is_repeat: bool = False
    tags: Tags = NO_TAGS

    @property
    def duration_ms(self) -> int:
        return max(0, round((self.ended - self.started) * 1000))
