"""What `doctor` checks of ranks is well on emulated GPUs, and breaks no rule of real ones."""

from tests.cuda.jobs import checked
from tests.support.emulated_cuda.ranks import EmulatedRanks


def test_collectives_of_two_gpus_are_well(emulated: EmulatedRanks) -> None:
    for found, problems in emulated.run(checked, ranks=2):
        assert {name: each["ok"] for name, each in found.items()} == {"all-to-all": True, "all-reduce": True}
        assert not problems
