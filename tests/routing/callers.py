"""Who asks, for tests that have no database."""

from uuid import UUID

from accounts.caller import Caller

CALLER = Caller(
    key_id=7,
    key_hash="0" * 64,
    management=False,
    account_id=UUID(int=1),
    workspace_id=UUID(int=2),
    creator_id=None,
    creator_left=False,
    disabled=False,
    expires_at=None,
    default_text_model="",
)
