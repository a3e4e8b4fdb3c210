"""POST /privacy/erasures: erasing one end user (ours)."""

from dataclasses import asdict
from typing import Final

from django.http import HttpRequest, HttpResponseBase

from accounts.services.records import key_actor
from accounts.views.managed import ManagedViewSet, describe_operations, managed_body
from gateway.http.responses import json_response
from gateway.openapi.components import answer_of
from routing.history.erasure import EndUser, erase_end_user
from routing.views.schemas.privacy import Erasure, ErasureBody

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
