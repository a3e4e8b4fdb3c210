"""POST /privacy/erasures: erasing one end user (ours)."""

from dataclasses import asdict
from typing import Annotated, Final

from django.http import HttpRequest, HttpResponseBase
from pydantic import Field

from accounts.services.records import key_actor
from accounts.views.managed import ManagedViewSet, describe_operations, managed_body
from gateway.http.errors import SchemaInvalid
from gateway.http.resources import Body, ResourceObject
from gateway.http.responses import json_response
from gateway.http.validation import Issue
from gateway.openapi.components import answer_of
from routing.history.erasure import EndUser, erase_end_user

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


_operation: Final = describe_operations("Generations", 400, 429)


class ErasureViewSet(ManagedViewSet):
    """What is known of one end user of the account."""

    @_operation(
        "eraseEndUser",
        "Erase an end user",
        "Ours. Deletes what one end user asked and was answered, and blanks his id wherever it is "
        "kept; charges, tokens and times stay. It may be repeated, and leaves an audit record with "
        "the hash of the id. Requests under way are not reached.",
        answer_of(Erasure),
        body=ErasureBody,
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        body = ErasureBody.read(managed_body(request))
        body.require_one()
        user = (
            EndUser.from_name(caller.account_id, body.user)
            if body.user is not None
            else EndUser(caller.account_id, body.user_hash or "")
        )
        erased = erase_end_user(user, by=key_actor(caller))
        data = Erasure.from_row(erased, user_hash=user.hash, **asdict(erased))
        return json_response({"data": data})
