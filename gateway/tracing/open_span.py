"""A span of what goes on here and now, unlike those that are made once all is over."""

import time
from collections.abc import Mapping, Sequence

from gateway.tracing.process import get_sender
from gateway.tracing.spans import Attribute, Span, SpanKind, SpanLink, build_span_id


class OpenSpan:
    """Begins when it is made; `end` hands it to the sender. Its trace is sampled."""

    def __init__(
        self,
        name: str,
        kind: SpanKind,
        *,
        trace_id: str,
        parent_id: str = "",
        links: Sequence[SpanLink] = (),
    ) -> None:
        self.trace_id, self.span_id = trace_id, build_span_id()
        self._name, self._kind, self._parent_id, self._links = name, kind, parent_id, links
        self._start_ns = time.time_ns()

    @property
    def traceparent(self) -> str:
        """What makes it the parent of what another process does."""
        return f"00-{self.trace_id}-{self.span_id}-01"

    def end(self, attributes: Mapping[str, Attribute | None], *, failed: bool = False) -> None:
        sender = get_sender()
        if sender is None:
            return
        span = Span(
            self._name,
            self._kind,
            self.trace_id,
            self.span_id,
            self._parent_id,
            self._start_ns,
            time.time_ns(),
            attributes,
            links=self._links,
            failed=failed,
            is_parent_remote=True,
        )
        sender.add([span])
