"""Everything that can go wrong, by name. Asked for as model `sim/<fault>` or `<fault>`."""

from routing.simulator.faults import bodies, claims, cuts, shapes, stalls, statuses
from routing.simulator.faults.base import Fault

FAULTS: dict[str, Fault] = {
    **cuts.FAULTS,
    **stalls.FAULTS,
    **statuses.FAULTS,
    **bodies.FAULTS,
    **shapes.FAULTS,
    **claims.FAULTS,
}

__all__ = ["FAULTS", "Fault"]
