"""Erasing conversations with interns that are named after an end user."""

from django.db import transaction

from interns.models import ChatInteraction, ChatSession, Intern
from routing.history.erasure import EndUser

_ERASED = "erased-"


def erase_sessions(user: EndUser) -> int:
    """Blank what the account's conversations of his name say of him; how many there were. Turns,
    their times and their usage stay."""
    interns = Intern.objects.filter(workspace__account=user.account_id).values("pk")
    with transaction.atomic():
        sessions = ChatSession.objects.filter(user.matches("session_id"), intern__in=interns)
        found = list(sessions.select_for_update())
        for session in found:
            session.session_id = f"{_ERASED}{session.pk}"
        ChatSession.objects.bulk_update(found, ["session_id"])
        asked = ChatInteraction.objects.filter(run__session__in=found)
        asked.update(arguments={})
    return len(found)
