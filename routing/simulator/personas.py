"""How fast and how reliable each simulated provider is."""

from dataclasses import dataclass
from random import Random

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Temper:
    """`tokens_per_s` 0 means no pause between tokens; `error_rate` is the share of 503s, 0 to 1.

    One that is not `strict` takes messages and responses that a real provider would refuse. The
    maxima are how much a request for decisions may ask; None is no limit.
    """

    first_token_s: float = 0.0
    tokens_per_s: float = 0.0
    error_rate: float = 0.0
    strict: bool = True
    questions_max: int | None = None
    options_max: int | None = None
    levels_max: int | None = None

    @property
    def is_instant(self) -> bool:
        return not (self.first_token_s or self.tokens_per_s or self.error_rate)

    def token_s(self) -> float:
        return 1 / self.tokens_per_s if self.tokens_per_s else 0.0


BUILT_IN = {
    "swift": Temper(first_token_s=0.02, tokens_per_s=400),
    "steady": Temper(first_token_s=0.06, tokens_per_s=120),
    "thrifty": Temper(first_token_s=0.2, tokens_per_s=40, error_rate=0.05),
}
INSTANT = Temper()


class Personas:
    """The tempers by name. Any name is a persona; one that nobody described is instant."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._tempers = dict(BUILT_IN)
        self._dice: dict[str, Random] = {}

    def temper(self, name: str) -> Temper:
        return self._tempers.get(name, INSTANT)

    def describe(self, name: str, temper: Temper) -> None:
        self._tempers[name] = temper

    def fails_now(self, name: str) -> bool:
        """Whether this call is one of the share that fails: the same calls under the same seed."""
        rate = self.temper(name).error_rate
        if not rate:
            return False
        dice = self._dice.get(name)
        if dice is None:
            # A string seeds Random the same way in every process.
            dice = self._dice[name] = Random(f"{self._seed}:{name}")  # noqa: S311 - a simulation.
        return dice.random() < rate
