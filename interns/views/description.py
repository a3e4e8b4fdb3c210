"""How /interns is described in the OpenAPI document."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from gateway.openapi.components import (
    FLAG,
    TEXT,
    WHOLE,
    Component,
    array,
    described,
    nullable,
    obj,
    words,
)
from gateway.openapi.errors import MEANINGS
from interns.machine import STEPS, WAITING_TEXT
from interns.models import Status
from interns.models.intern import (
    DESCRIPTION_CHARS_MAX,
    INSTRUCTIONS_CHARS_MAX,
    MODEL_CHARS_MAX,
    NAME_CHARS_MAX,
)
from interns.views.body import KEY_CHARS_MAX, MODEL_PATTERN, NAME_CHARS_MIN, NAME_PATTERN
from interns.views.listing import LIMIT_DEFAULT, LIMIT_MAX

F = TypeVar("F", bound=Callable[..., object])
ID: Final = {"type": "string", "format": "uuid"}
_MOMENT: Final = {"type": "string", "format": "date-time"}
_NAME: Final = {
    "type": "string",
    "minLength": NAME_CHARS_MIN,
    "maxLength": NAME_CHARS_MAX,
    "pattern": NAME_PATTERN,
    "description": "Unique among the creator's in the workspace.",
}
_DESCRIPTION: Final = {"type": "string", "maxLength": DESCRIPTION_CHARS_MAX}
_INSTRUCTIONS: Final = {
    "type": "string",
    "maxLength": INSTRUCTIONS_CHARS_MAX,
    "description": "Standing instructions; a change takes effect at the next boot.",
}
_MODEL: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": MODEL_CHARS_MAX,
    "pattern": MODEL_PATTERN,
    "description": "Null is the workspace's default; a change takes effect at the next provision.",
}
INTERN: Final = Component(
    "Intern",
    obj(
        {
            "id": ID,
            "name": _NAME,
            "description": _DESCRIPTION,
            "instructions": nullable(_INSTRUCTIONS),
            "model": nullable(_MODEL),
            "hostname": nullable(described(TEXT, "Kept while it is suspended.")),
            "status": words(*Status.values),
            "progress": nullable(
                obj(
                    {
                        "step_label": words(*STEPS, WAITING_TEXT),
                        "step_number": {"type": "integer", "minimum": 1, "maximum": len(STEPS)},
                        "total_steps": WHOLE,
                    }
                )
            ),
            "last_failure_message": nullable(
                described(TEXT, "`<code>: <sentence>`, while it failed.")
            ),
            "vault_id": nullable(described(ID, "The vault that it owns.")),
            "attached_vault_id": nullable(described(ID, "A vault borrowed from another intern.")),
            "workspace_id": ID,
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
        }
    ),
)
_NEW: Final = Component(
    "NewIntern",
    {
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {
            "name": _NAME,
            "workspace_id": nullable(described(ID, "The key's own workspace.")),
            "description": nullable(_DESCRIPTION),
            "instructions": nullable(_INSTRUCTIONS),
            "provision": {"type": "boolean", "default": False},
            "vault_id": nullable(described(ID, "A vault of another intern, to borrow.")),
        },
    },
)
_CHANGES: Final = Component(
    "InternChanges",
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "name": _NAME,
            "description": nullable(_DESCRIPTION),
            "instructions": nullable(_INSTRUCTIONS),
            "model": nullable(_MODEL),
        },
    },
)
_EMPTY: Final = Component("NoFields", {"type": "object", "additionalProperties": False})
_DELETION: Final = Component(
    "InternDeletion",
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "acknowledge_workspace_loss": {
                "type": "boolean",
                "default": False,
                "description": "Do not stop on a missing archive of the workspace.",
            }
        },
    },
)
_LIST: Final = Component(
    "InternList",
    obj({"data": array(INTERN), "has_more": FLAG, "next_cursor": TEXT}, optional=("next_cursor",)),
)
_REASON: Final = Component(
    "InternErrorMetadata",
    obj(
        {
            "reason": described(TEXT, "Such as `intern_busy`, `invalid_state` or `not_found`."),
            "retryable": FLAG,
            "issues": array(obj({"path": TEXT, "message": TEXT})),
        },
        optional=("issues",),
    ),
)
INTERN_ERROR: Final = Component(
    "InternError",
    obj(
        {
            "error": obj(
                {
                    "code": described(WHOLE, "The HTTP status."),
                    "message": TEXT,
                    "metadata": _REASON,
                },
                optional=("metadata",),
            )
        }
    ),
)
_WHICH: Final = OpenApiParameter(
    "intern_id", TEXT, OpenApiParameter.PATH, description="The intern's id."
)
_ONCE: Final = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX},
    OpenApiParameter.HEADER,
    description="The same key and body make one intern. Without it the body is its own key.",
)
_QUERY: Final = [
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    ),
    OpenApiParameter("status", str, description="Statuses with commas between."),
    OpenApiParameter("workspace_id", ID, description="The key's own workspace."),
    OpenApiParameter("starting_after", str, description="`next_cursor` of the page before."),
]
_READING: Final = (401, 403, 404, 408, 500)
_WRITING: Final = (400, 401, 403, 404, 408, 409, 413, 415, 500)


def intern_errors(*statuses: int) -> dict[int, OpenApiResponse]:
    """These statuses with the error body of interns. Wrong credentials may be too many."""
    told = {*statuses, 429}
    said = {**MEANINGS, 404: "No such intern, or none that the key may see."}
    said |= {408: "It took longer than ten seconds, and goes on.", 415: "The body is not JSON."}
    return {code: OpenApiResponse(INTERN_ERROR, description=said[code]) for code in sorted(told)}


def _described(
    operation_id: str,
    summary: str,
    answers: dict[int, tuple[Component, str]],
    errors: tuple[int, ...],
    **more: Any,
) -> Callable[[F], F]:
    good = {code: OpenApiResponse(*each) for code, each in answers.items()}
    return extend_schema(
        operation_id=operation_id,
        summary=summary,
        tags=["Interns"],
        responses={**good, **intern_errors(*errors)},
        **more,
    )


def _flag(name: str, word: str) -> Component:
    return Component(name, obj({word: FLAG}))


listing = _described(
    "listInterns",
    "List interns",
    {200: (_LIST, "Newest first.")},
    (400, *_READING),
    parameters=_QUERY,
)
creation = _described(
    "createIntern",
    "Create an intern",
    {201: (INTERN, "It was made."), 200: (INTERN, "It was made before.")},
    (*_WRITING, 502),
    request=_NEW,
    parameters=[_ONCE],
)
retrieval = _described(
    "getIntern", "Get an intern", {200: (INTERN, "As it is.")}, _READING, parameters=[_WHICH]
)
change = _described(
    "updateIntern",
    "Change an intern",
    {200: (INTERN, "As it is now.")},
    _WRITING,
    request=_CHANGES,
    parameters=[_WHICH],
)
provisioning = _described(
    "provisionIntern",
    "Boot an intern, or resume it",
    {
        202: (
            _flag("InternProvisioning", "provisioning"),
            "A worker does it. The disk's bound is watched while commands run: a single file never"
            " passes it, many that are written at once may for a second.",
        )
    },
    (*_WRITING, 502),
    request=_EMPTY,
    parameters=[_WHICH],
)
suspension = _described(
    "suspendIntern",
    "Stop an intern's runtime; its disk stays",
    {200: (_flag("InternSuspended", "suspended"), "It is stopped.")},
    (*_WRITING, 502),
    request=_EMPTY,
    parameters=[_WHICH],
)
deletion = _described(
    "deleteIntern",
    "Take an intern down, with its runtime and its vault",
    {202: (_flag("InternDeleting", "deleting"), "A worker does it.")},
    (*_WRITING, 502),
    request=_DELETION,
    parameters=[_WHICH],
)
