"""Try cases of one kind by hypothesis, counted by what they were taken for, until one fails or all are
done."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.cases import Case
from tests.fuzz.judge import Hang
from tests.fuzz.makings import Makings


@dataclass
class Tried:
    """How often what happened."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failure: str | None = None
    """The first case in which the property does not hold: finding a smaller one would take minutes."""


def try_cases(case: Case, made: Makings, *, examples: int, seed: int) -> Tried:
    """The same cases for the same seed."""
    tried = Tried()

    @_seeded(seed)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        tried.outcomes[case(data.draw, made)] += 1

    try:
        run()
    except (Exception, Hang) as error:
        notes = "; ".join(getattr(error, "__notes__", []))
        tried.failure = f"{type(error).__name__}: {error} {notes}"
    return tried


_seeded = seed
