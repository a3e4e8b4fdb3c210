"""How far the items of one streamed answer have been sent."""

from gateway.http.jsonio import JsonObject


class OutputPart:
    """One part of an item: the characters, tokens and annotations of it that were said. `offset`
    is where its text begins in the content of the whole answer."""

    __slots__ = ("annotations", "chars", "offset", "tokens")

    def __init__(self) -> None:
        self.chars = self.tokens = self.annotations = self.offset = 0


class OutputItem:
    """One output item, as far as the stream has said it."""

    __slots__ = (
        *("call_id", "call_index", "format", "id", "is_closed", "is_named", "is_sealed"),
        *("is_signed", "name", "pieces", "reasoning_index", "type"),
    )

    def __init__(self, value: JsonObject | None = None) -> None:
        self.id: str | None = None
        self.call_id: str | None = None
        self.name: str | None = None
        self.format: str | None = None
        self.type: str | None = None
        self.call_index: int | None = None
        self.reasoning_index: int | None = None
        self.is_closed = self.is_named = self.is_sealed = self.is_signed = False
        self.pieces: dict[tuple[str, int], OutputPart] = {}
        if value is not None:
            self.learn(value)

    def learn(self, value: JsonObject) -> None:
        """Take over what an item says of itself; what was known before stays."""
        self.id = self.id or _text(value.get("id"))
        self.call_id = self.call_id or _text(value.get("call_id"))
        self.name = self.name or _text(value.get("name"))
        self.format = self.format or _text(value.get("format"))
        self.type = self.type or _text(value.get("type"))

    def piece(self, kind: str, index: object) -> OutputPart:
        key = (kind, index if type(index) is int else 0)
        piece = self.pieces.get(key)
        if piece is None:
            piece = self.pieces[key] = OutputPart()
        return piece

    def remaining(self, kind: str, index: object, text: object) -> str:
        """What remains of the whole text of a piece."""
        if not isinstance(text, str):
            return ""
        return text[self.piece(kind, index).chars :]


class OutputItems:
    """The items of one answer by id and by place. Upstreams differ in which of the two they keep to
    from event to event: an id that is known decides, then the place."""

    __slots__ = ("_by_id", "_by_place")

    def __init__(self) -> None:
        self._by_id: dict[str, OutputItem] = {}
        self._by_place: dict[int, OutputItem] = {}

    def find(self, id: object) -> OutputItem | None:
        return self._by_id.get(id) if type(id) is str else None

    def find_at(self, index: int) -> OutputItem | None:
        return self._by_place.get(index)

    def for_event(self, id: object, index: object) -> OutputItem:
        """The item of an event, a new one where none is known."""
        item = self.find(id)
        if item is not None:
            return item
        item = self._by_place.get(index) if type(index) is int else None
        return self._put(OutputItem() if item is None or item.is_closed else item, id, index)

    def begin(self, id: object, index: object) -> OutputItem:
        """The item that an event announces: a new one, unless something was said of it before."""
        item = self.find(id)
        if item is not None:
            return item
        item = self._by_place.get(index) if type(index) is int else None
        is_early = item is not None and item.id is None and not item.is_closed
        return self._put(item if item is not None and is_early else OutputItem(), id, index)

    def _put(self, item: OutputItem, id: object, index: object) -> OutputItem:
        if type(id) is str:
            item.id = item.id or id
            self._by_id[id] = item
        if type(index) is int:
            self._by_place[index] = item
        return item


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
