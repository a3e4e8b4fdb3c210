"""Erasures of end users: the body and the answer."""

from typing import Annotated

from pydantic import Field

from gateway.http.errors import SchemaInvalid
from gateway.http.resources import Body, ResourceObject
from gateway.http.validation import Issue

_Rows = Annotated[int, Field(ge=0)]


class ErasureBody(Body):
    """Whom to erase: one of the two."""

    user: str | None = Field(
        None,
        min_length=1,
        description="The id as requests gave it in `user` or `metadata.user_id`.",
    )
    user_hash: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{64}$",
        description="The same as history tells it, `external_user` of a generation.",
    )

    def require_one(self) -> None:
        """Raises `SchemaInvalid` where both or none are given."""
        if (self.user is None) == (self.user_hash is None):
            raise SchemaInvalid([Issue("user", "Invalid input: expected user or user_hash")])
        if self.user is not None and "\x00" in self.user:
            raise SchemaInvalid([Issue("user", "Invalid input: expected no null character")])


class Erasure(ResourceObject):
    """How many rows lost something; the books keep amounts, tokens and times."""

    user_hash: str
    generations: _Rows = Field(description="Records that named him.")
    facts: _Rows = Field(description="Figures of analytics that named him.")
    contents: _Rows = Field(description="Prompts and answers.")
    kept_answers: _Rows = Field(description="Answers kept for an `Idempotency-Key`.")
    comments: _Rows = Field(description="Comments of feedback on his generations.")
    keys: _Rows = Field(description="Keys that were made for him. They go on working.")
    sessions: _Rows = Field(
        description="Conversations with interns whose `session_id` is his id: they lose their name "
        "and what they asked him. Files on an intern's disk go with the intern."
    )
    failures: _Rows = Field(description="Failed and refused requests that a tag of named him.")
