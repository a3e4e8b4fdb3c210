"""The catalogue with what traffic has shown of it."""

from routing.catalogue.listing import LearnedStats
from routing.statistics import observation

__all__ = ["LearnedStats", "read_learned"]


def read_learned() -> LearnedStats:
    """Figures and health of endpoints, as this process knows them."""
    return LearnedStats(observation.endpoint_stats(), observation.health_snapshot())
