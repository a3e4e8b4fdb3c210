"""Stored prompts and answers: trimmed, compressed, encrypted, and deleted after some days."""

import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
from django.conf import settings
from django.db.models import Count, Q
from pydantic import ConfigDict, Field

from accounts.caller import Caller
from accounts.models import Membership
from accounts.roles import Action, list_account_roles
from gateway.http.errors import NotFound, PermissionDenied
from gateway.http.jsonio import JsonObject, dumps
from gateway.http.resources import ABSENT, OpenObject, ResourceObject
from gateway.sealing import seal_bytes, unseal_bytes
from routing.history.content_draft import ContentDraft
from routing.history.models import GenerationContent
from routing.metering.models import Generation

PURPOSE: Final = "generation-content"
TRUNCATED: Final = "…[truncated]"
# What an element of a list or an object counts in addition to its text.
_ELEMENT_CHARS: Final = 8
_PURGED_AT_ONCE: Final = 500
_PURGES_MAX: Final = 400


class OnlyAdmins(PermissionDenied):
    message = "Only organization admins can read the content of generations"


class GenerationInput(ResourceObject):
    """The chat messages of the request, whatever format it was in."""

    messages: list[OpenObject]


class GenerationOutput(ResourceObject):
    completion: str | None
    reasoning: str | None
    tool_calls: list[OpenObject] = ABSENT


class GenerationContentError(ResourceObject):
    message: str
    status: int
    provider_name: str | None
    raw: str | None
    previous_errors: list[OpenObject]


class GenerationContentObject(ResourceObject):
    """Prompt and answer of a generation."""

    model_config = ConfigDict(title="GenerationContent")

    input: GenerationInput
    output: GenerationOutput
    error: GenerationContentError | None
    truncated: bool = Field(ABSENT, description="True where there was more than is kept.")


def build_sealed_row(draft: ContentDraft) -> GenerationContent:
    """Build an unsaved row. Takes some tens of milliseconds for large contents."""
    content = build_content(draft, chars_max=settings.GENERATION_CONTENT_BYTES)
    packed = zlib.compress(dumps(content))
    sealed = seal_bytes(packed, purpose=PURPOSE, row=draft.generation_id)
    return GenerationContent(
        generation_id=draft.generation_id,
        account_id=draft.account_id,
        created_at=draft.created_at,
        sealed=sealed,
    )


def store(rows: Sequence[GenerationContent]) -> None:
    """Insert rows; existing ones stay as they are."""
    GenerationContent.objects.bulk_create(rows, ignore_conflicts=True)


def build_content(draft: ContentDraft, *, chars_max: int) -> JsonObject:
    """Build the object of GET /generation/content. The prompt gets the room the answer leaves."""
    output: JsonObject = {
        "completion": "".join(draft.text) or None,
        "reasoning": "".join(draft.reasoning) or None,
    }
    if draft.tool_calls:
        output["tool_calls"] = [
            {name: value for name, value in call.items() if name != "index"}
            for call in draft.tool_calls
        ]
    used = sum(map(len, draft.text)) + sum(map(len, draft.reasoning))
    messages, is_complete = trim_value(draft.messages, chars_max - used)
    content: JsonObject = {
        "input": {"messages": messages},
        "output": output,
        "error": draft.error,
    }
    if draft.truncated or not is_complete:
        content["truncated"] = True
    return content


def trim_value(value: object, chars_max: int) -> tuple[Any, bool]:
    """Cut a JSON value to about `chars_max` characters; also whether it is complete."""
    trimmer = _Trimmer(chars_max)
    return trimmer.trim(value), trimmer.is_complete


class _Trimmer:
    def __init__(self, chars_left: int) -> None:
        self._left = chars_left
        self.is_complete = True

    def trim(self, value: object) -> Any:
        self._left -= _ELEMENT_CHARS
        if isinstance(value, str):
            left = max(0, self._left)
            self._left -= len(value)
            if len(value) <= left:
                return value
            self.is_complete = False
            return value[:left] + TRUNCATED
        if isinstance(value, dict):
            fields: JsonObject = {}
            for name, item in value.items():
                if self._left <= 0:
                    self.is_complete = False
                    break
                self._left -= len(name)
                fields[name] = self.trim(item)
            return fields
        if isinstance(value, list):
            elements: list[Any] = []
            for item in value:
                if self._left <= 0:
                    self.is_complete = False
                    break
                elements.append(self.trim(item))
            return elements
        return value


def read_content(caller: Caller, generation_id: str) -> orjson.Fragment:
    """Read the content of one generation, as JSON. Raises `OnlyAdmins`, and `NotFound` where none
    is stored or the generation is another account's."""
    if not caller.management:
        admins = Q(role__in=list_account_roles(Action.CONTENTS), user__public_id=caller.creator_id)
        counts = Membership.objects.filter(account_id=caller.account_id).aggregate(
            members=Count("pk"), admins=Count("pk", filter=admins)
        )
        # In an organization the key's creator must be an admin.
        if counts["members"] > 1 and not counts["admins"]:
            raise OnlyAdmins
    known = Generation.objects.filter(pk=generation_id, account_id=caller.account_id, lost=False)
    rows = GenerationContent.objects.filter(
        pk=generation_id, account_id=caller.account_id, pk__in=known.values("pk")
    )
    row = rows.first() if "\x00" not in generation_id else None
    if row is None:
        raise NotFound
    packed = unseal_bytes(bytes(row.sealed), purpose=PURPOSE, row=row.pk)
    return orjson.Fragment(zlib.decompress(packed))


def forget_old(now: datetime) -> int:
    """Delete contents older than GENERATION_CONTENT_DAYS, in portions; returns how many."""
    before = now - timedelta(days=settings.GENERATION_CONTENT_DAYS)
    total = 0
    for _ in range(_PURGES_MAX):
        old = GenerationContent.objects.filter(created_at__lt=before).order_by("created_at")
        pks = list(old.values_list("pk", flat=True)[:_PURGED_AT_ONCE])
        if not pks:
            break
        total += GenerationContent.objects.filter(pk__in=pks).delete()[0]
    return total
