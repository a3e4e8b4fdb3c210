"""Everything that can go wrong, by name. Asked for as model `sim/<fault>` or `<fault>`."""

from routing.simulator.faults.answers import BODY_FAULTS, CLAIM_FAULTS, STATUS_FAULTS
from routing.simulator.faults.base import Fault
from routing.simulator.faults.delivery import CUT_FAULTS, STALL_FAULTS, STREAM_FAULTS

FAULTS: dict[str, Fault] = {
    **CUT_FAULTS,
    **STALL_FAULTS,
    **STATUS_FAULTS,
    **BODY_FAULTS,
    **STREAM_FAULTS,
    **CLAIM_FAULTS,
}

__all__ = ["FAULTS", "Fault"]
