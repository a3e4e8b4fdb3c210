"""How /credits/statement is described in the OpenAPI document."""

from typing import Any, Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from accounts.models import LedgerEntry
from gateway.openapi.components import (
    TEXT,
    USD,
    WHOLE,
    Component,
    array,
    described,
    nullable,
    obj,
    words,
)
from gateway.openapi.errors import error_responses

_MOMENT: Final = {"type": "string", "format": "date-time"}
_UUID: Final = {"type": "string", "format": "uuid"}


def _money(*names: str) -> dict[str, Any]:
    """USD as a number, and as whole nano-USD."""
    return {key: kind for name in names for key, kind in ((name, USD), (f"{name}_nano", WHOLE))}


LINE: Final = Component(
    "StatementLine",
    obj(
        {
            "date": {"type": "string", "format": "date"},
            "at": nullable(described(_MOMENT, "When, of a single entry.")),
            "kind": words(*LedgerEntry.Kind.values),
            "entries": described(WHOLE, "How many entries it sums."),
            **_money("amount"),
            "workspace_id": nullable(_UUID),
            "workspace": nullable(TEXT),
            "key_hash": nullable(TEXT),
            "key": nullable(described(TEXT, "The key's name.")),
            "source": nullable(TEXT),
            "source_ref": nullable(TEXT),
            "generation_id": nullable(TEXT),
            "note": nullable(TEXT),
        },
        description="An entry, or a day's usage of one kind, workspace and key. The amount is its "
        "effect on the balance.",
    ),
)
STATEMENT: Final = Component(
    "Statement",
    obj(
        {
            "data": obj(
                {
                    "account_id": _UUID,
                    "start": _MOMENT,
                    "end": _MOMENT,
                    "made_at": _MOMENT,
                    **_money("opening_balance"),
                    "lines": array(LINE),
                    "totals": obj(
                        {
                            "lines": WHOLE,
                            "entries": WHOLE,
                            **_money("credits", "usage", "change"),
                        }
                    ),
                    **_money("closing_balance"),
                }
            )
        }
    ),
)


def _day(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, TEXT, description=description)


describe_statement = extend_schema(
    operation_id="getStatement",
    summary="Get a statement of the account",
    description=(
        "Ours. Needs a management key. Opening balance, lines, totals and closing balance of a "
        "period, all of one moment; the lines sum to the totals exactly. Credits, refunds and "
        "reversals are told one by one, usage per UTC day, workspace, key and kind. A request that "
        "is settled late stands at the time it was settled."
    ),
    tags=["Keys and credits"],
    parameters=[
        _day("start", "A UTC day `YYYY-MM-DD`, or a moment; this month's first when absent."),
        _day("end", "Likewise, and no longer part of it; now when absent."),
        OpenApiParameter("format", {"type": "string", "enum": ["json", "csv"], "default": "json"}),
    ],
    responses={
        (200, "application/json"): OpenApiResponse(STATEMENT, description="The statement."),
        (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, description="The statement."),
        **error_responses(400, 401, 403, 500),
    },
)
