"""The status machine as a table: what moves, what is refused, and with which words."""

import itertools

import pytest

from interns.errors import ArchiveMissing, InternBusy, InvalidState, SlackInstallRequired
from interns.machine import (
    ACCEPTED,
    NOWHERE,
    MoveRule,
    OperationState,
    assert_allowed,
    build_progress,
    find_refusal,
    find_rules,
    is_archive_failure,
)
from interns.models import LeaseKind, Status

NEW, QUEUED, PROVISIONING, RUNNING = "awaiting_slack_install", "queued", "provisioning", "running"
FAILED, STOPPED = "failed", "stopped"
DESTROYING, DESTROY_FAILED = "destroying", "destroy_failed"
# Written from the specification, independently of the code's own table.
LISTED = {
    (NOWHERE, NEW): {"T1", "T3"},
    (NOWHERE, QUEUED): {"T2"},
    (NEW, QUEUED): {"T4", "T5"},
    (NEW, NEW): {"T5"},
    (FAILED, QUEUED): {"T6"},
    (STOPPED, QUEUED): {"T7"},
    (QUEUED, PROVISIONING): {"T8"},
    (PROVISIONING, PROVISIONING): {"T9"},
    (PROVISIONING, RUNNING): {"T10"},
    (PROVISIONING, FAILED): {"T11", "T12"},
    (QUEUED, FAILED): {"T12"},
    (RUNNING, STOPPED): {"T13", "T21"},
    # Its machine is gone.
    (QUEUED, STOPPED): {"T21"},
    (PROVISIONING, STOPPED): {"T21"},
    (RUNNING, FAILED): {"T14"},
    (NEW, DESTROYING): {"T15"},
    (RUNNING, DESTROYING): {"T15"},
    (FAILED, DESTROYING): {"T15"},
    (STOPPED, DESTROYING): {"T15"},
    (DESTROY_FAILED, DESTROYING): {"T16"},
    (DESTROYING, NOWHERE): {"T17"},
    (DESTROYING, DESTROY_FAILED): {"T18", "T20"},
    (DESTROYING, DESTROYING): {"T19"},
}
KINDS = (LeaseKind.PROVISION, LeaseKind.SUSPEND, LeaseKind.DELETE)
BUSY = (409, "intern_busy", True, "Another operation holds this intern, retry later")
WRONG_STATE = "The intern is not in a state that allows this operation"
WRONG = (409, "invalid_state", False, WRONG_STATE)
REFUSED = {
    NEW: (None, WRONG, None),
    QUEUED: (BUSY, BUSY, BUSY),
    PROVISIONING: (BUSY, BUSY, BUSY),
    RUNNING: (WRONG, None, None),
    FAILED: (None, WRONG, None),
    STOPPED: (None, WRONG, None),
    DESTROYING: (BUSY, BUSY, BUSY),
    DESTROY_FAILED: (WRONG, WRONG, None),
}


def describe_refusal(kind: LeaseKind, at: OperationState, *, acknowledged: bool = False) -> object:
    """What a refusal says, None where there is none."""
    refused = find_refusal(kind, at, acknowledged=acknowledged)
    if refused is None:
        return None
    assert isinstance(refused, InternBusy | InvalidState)
    return refused.status, refused.reason, refused.retryable, refused.text


def test_every_pair_of_statuses_has_the_listed_rules_and_no_others() -> None:
    places = [NOWHERE, *Status.values]
    for pair in itertools.product(places, places):
        listed = LISTED.get(pair, set())
        assert set(map(str, find_rules(*pair))) == listed, pair
        for rule in MoveRule:
            if str(rule) in listed:
                assert_allowed(rule, *pair)
            else:
                with pytest.raises(AssertionError, match=f"{rule}: "):
                    assert_allowed(rule, *pair)


def test_every_operation_in_every_status() -> None:
    for status, kind in itertools.product(Status.values, KINDS):
        wanted = REFUSED[status][KINDS.index(kind)]
        assert describe_refusal(kind, OperationState(status)) == wanted, (status, kind)
        if wanted is None and kind != LeaseKind.SUSPEND:
            assert (kind, status) in ACCEPTED
        # Whatever is held is busy.
        assert describe_refusal(kind, OperationState(status, held=True), acknowledged=True) == BUSY


def test_slack_is_asked_for_at_the_first_provision_only() -> None:
    refused = find_refusal(LeaseKind.PROVISION, OperationState(NEW, slack_missing=True))
    assert isinstance(refused, SlackInstallRequired)
    assert (refused.reason, refused.retryable) == ("slack_install_required", False)
    assert find_refusal(LeaseKind.PROVISION, OperationState(STOPPED, slack_missing=True)) is None
    assert find_refusal(LeaseKind.DELETE, OperationState(NEW, slack_missing=True)) is None


def test_a_missing_archive_is_to_be_acknowledged() -> None:
    at = OperationState(DESTROY_FAILED, archive_missing=True)
    refused = find_refusal(LeaseKind.DELETE, at)
    assert isinstance(refused, ArchiveMissing)
    assert (refused.reason, refused.retryable) == ("workspace_archive_failed", False)
    assert find_refusal(LeaseKind.DELETE, at, acknowledged=True) is None
    assert find_refusal(LeaseKind.PROVISION, OperationState(STOPPED, archive_missing=True)) is None


def test_a_teardown_says_whether_it_failed_over_its_archive() -> None:
    said = ("workspace_archive_failed: the store is full", "runtime_stop_failed: it hangs", None)
    assert [is_archive_failure(each) for each in said] == [True, False, False]


def test_progress_is_told_of_each_step_from_the_first_to_the_last() -> None:
    assert [build_progress(step) for step in (None, 1, 4)] == [
        None,
        {"step_label": "Preparing credentials", "step_number": 1, "total_steps": 4},
        {"step_label": "Checking health", "step_number": 4, "total_steps": 4},
    ]
