"""Just enough of the PostgreSQL wire protocol to see a COMMIT asked for and answered."""

import struct

_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104
_LENGTH = struct.Struct("!i")


class Wire:
    """Both directions of one connection, fed with its chunks as they pass.

    A statement outside of BEGIN and COMMIT that begins with WITH, as the ledger sends them, is a
    transaction by itself. It stands for its COMMIT, and "ready for query" for the answer.

    Anything but PostgreSQL's protocol version 3 in the clear passes unseen.
    """

    def __init__(self) -> None:
        self._asked = bytearray()
        self._answered = bytearray()
        self._starting = True
        self._known = True
        self._bare_answers = 0
        self._statements: dict[bytes, bytes] = {}
        self._portals: dict[bytes, bytes] = {}
        self._transaction: list[bytes] = []
        self._begun = self._alone = False

    def has_touched(self, text: bytes) -> bool:
        """Whether a statement of the transaction contains the text."""
        return not text or any(text in statement for statement in self._transaction)

    def find_question(self, data: bytes) -> int | None:
        """Where in this chunk of the client's a COMMIT begins (0 where it began in an earlier
        one), None where there is none."""
        if not self._known:
            return None
        at, commit_at = -len(self._asked), None
        self._asked += data
        while self._known and (message := self._next_question()):
            if self._is_commit(message) and commit_at is None:
                commit_at = max(0, at)
            at += len(message)
        return commit_at

    def find_answer(self, data: bytes) -> int | None:
        """The same for the server's word that it has committed."""
        if not self._known:
            return None
        at, commit_at = -len(self._answered), None
        self._answered += data
        while self._known and (message := self._next_answer()):
            if self._has_committed(message) and commit_at is None:
                commit_at = max(0, at)
            at += len(message)
        return commit_at

    def _next_question(self) -> bytes:
        if not self._starting:
            return _take_message(self._asked, 1)
        if self._asked and self._asked[0]:
            self._known = False
            return b""
        message = _take_message(self._asked, 0)
        if message:
            if _LENGTH.unpack_from(message, 4)[0] in (_SSL_REQUEST, _GSS_REQUEST):
                self._bare_answers += 1
            else:
                self._starting = False
        return message

    def _next_answer(self) -> bytes:
        if self._bare_answers and self._answered:
            self._bare_answers -= 1
            answer = bytes(self._answered[:1])
            del self._answered[:1]
            if answer != b"N":
                self._known = False  # From here on it is encrypted.
            return answer
        return _take_message(self._answered, 1)

    def _is_commit(self, message: bytes) -> bool:
        """Follow one message of the client's; True when it makes the server commit."""
        kind, body = message[:1], message[5:]
        if kind == b"Q":
            return self._runs(body.rstrip(b"\0"))
        if kind == b"P":
            name, text = body.split(b"\0")[:2]
            self._statements[name] = text
        elif kind == b"B":
            portal, name = body.split(b"\0")[:2]
            self._portals[portal] = self._statements.get(name, b"")
        elif kind == b"E":
            return self._runs(self._portals.get(body.split(b"\0")[0], b""))
        return False

    def _runs(self, text: bytes) -> bool:
        word = text.strip().upper()
        self._alone = not self._begun and word.startswith(b"WITH")
        if word.startswith(b"BEGIN") or self._alone:
            self._transaction.clear()
        self._begun = word.startswith(b"BEGIN") or (
            self._begun and not word.startswith((b"COMMIT", b"ROLLBACK"))
        )
        self._transaction.append(text)
        return self._alone or word.startswith(b"COMMIT")

    def _has_committed(self, message: bytes) -> bool:
        """Follow one message of the server's; True when it tells of a commit."""
        kind = message[:1]
        if kind == b"E":
            self._alone = False
        return (kind == b"Z" and self._alone) or (kind == b"C" and message[5:] == b"COMMIT\0")


def _take_message(buffer: bytearray, type_bytes: int) -> bytes:
    """Remove one whole message from the front, nothing while it is not whole."""
    if len(buffer) < type_bytes + 4:
        return b""
    end = type_bytes + int(_LENGTH.unpack_from(buffer, type_bytes)[0])
    if end < type_bytes + 4 or len(buffer) < end:
        return b""
    message = bytes(buffer[:end])
    del buffer[:end]
    return message
