"""A GPU without memory left: one sentence that says how much was held, and what would take less."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError
from tpnet_dist.files.readable import readable_bytes

MOST_UNUSED = 0.1
"""The share of a device's memory above which what torch keeps unused is said to be in pieces too small to be
used."""
_REMEDY = (
    "lower training.batch_size, memory.borrowed_rows or memory.width, or start more ranks; "
    "python -m tpnet_dist.plan says what fits"
)
_PIECES = "set PYTORCH_ALLOC_CONF=expandable_segments:True, as launch/ does, so that pieces can grow; or "


@contextmanager
def out_of_memory_told(world: World) -> Iterator[None]:
    """Turn torch's error into a sentence with a remedy."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        # the traceback holds tensors, which the sentence need not
        raise InputError(_sentence(world, " ".join(str(error).split()))) from error


def _sentence(world: World, said: str) -> str:
    where = f"rank {world.rank}: {world.device} has no memory left during {world.phase.now}"
    if world.device.type != "cuda":
        return f"{where}: {said}; {_REMEDY}"
    free, total = torch.cuda.mem_get_info(world.device)
    held, reserved = torch.cuda.memory_allocated(world.device), torch.cuda.memory_reserved(world.device)
    is_in_pieces = reserved - held > MOST_UNUSED * total
    return (
        f"{where}: of {readable_bytes(total)} tensors take {readable_bytes(held)}, torch keeps "
        f"{readable_bytes(reserved - held)} more, and {readable_bytes(free)} are free; "
        f"{_PIECES if is_in_pieces else ''}{_REMEDY}"
    )
