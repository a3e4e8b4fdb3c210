"""What beat does for chats."""

from celery import shared_task

from interns.chat.clock import CLOCK
from interns.chat.run_cleanup import delete_old_runs, expire_runs
from interns.runtime.driver import current_driver


@shared_task
def close_left_over_runs() -> None:
    """End runs that nobody has any more, and forget old ones."""
    expire_runs(CLOCK.now(), driver=current_driver())
    delete_old_runs(CLOCK.now())
