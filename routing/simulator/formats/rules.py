"""Checks that end with the first rule that is broken."""


class Broken(Exception):
    """A request breaks a rule; the text is what the caller is told."""

    def __init__(self, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


def demand(holds: bool, message: str) -> None:
    """Raises Broken unless it holds."""
    if not holds:
        raise Broken(message)
