"""A few hostile cases of each kind; `make fuzz` tries many."""

from pathlib import Path

import pytest

from tests.fuzz.cases import CASES
from tests.fuzz.flips import SILENT, TRACEBACK, flip_bits, stored_kinds
from tests.fuzz.makings import Makings, make_all
from tests.fuzz.trying import try_cases

EXAMPLES = 12
FLIPS = 20


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Makings:
    return make_all(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("kind", CASES)
def test_hostile_input_is_taken_rightly_or_refused_in_one_sentence(made: Makings, kind: str) -> None:
    tried = try_cases(CASES[kind], made, examples=EXAMPLES, seed=1)
    assert tried.failure is None, tried.failure
    assert sum(tried.outcomes.values()) >= EXAMPLES // 2


KINDS = ("shards", "features", "manifest", "node ids", "best.pt", "step folders", "results", "metrics")


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_named_or_without_effect(made: Makings, kind: str) -> None:
    found = flip_bits(stored_kinds(made)[kind], FLIPS, seed=2)
    assert not found[SILENT] and not found[TRACEBACK], found
    assert sum(found.values()) == FLIPS


def test_a_flip_of_any_byte_around_the_values_of_a_shard_is_named(made: Makings, tmp_path: Path) -> None:
    """Parquet's own checksums leave out the headers of pages, and the footer."""
    stored = stored_kinds(made)["shards"]
    file, intact = stored.files[0], stored.read()
    content = file.read_bytes()
    for place in (4, 5, 20, len(content) - 9, len(content) - 200, len(content) - 400):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert stored.outcome(file, intact) == "named", place
    file.write_bytes(content)
