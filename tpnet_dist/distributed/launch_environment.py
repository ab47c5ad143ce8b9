"""What a launcher tells a process before the ranks have met; without torch, so that it is known at once."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from tpnet_dist.errors import InputError


def launched_as_first() -> bool:
    """Return whether this is the first rank, which speaks for all once ranks have met."""
    return os.environ.get("RANK", "0") == "0"


def launched_as_first_of_host() -> bool:
    """Return whether this rank speaks for its host before ranks have met: other hosts may have been given
    other arguments, or see other files."""
    return os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0")) == "0"


def launched_on_first_host() -> bool:
    """Return whether torchrun started the first rank on this host."""
    return os.environ.get("GROUP_RANK", "0") == "0"


def quiet_profiler() -> None:
    """Keep the profiler's library from logging its own stages; call it before torch is imported."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def let_streams_run_side_by_side() -> None:
    """Give CUDA a queue for each stream; call it before CUDA is used. With fewer queues, rows on their way
    and gradients would wait for one another in the order each rank happened to send them, which may be
    another on each."""
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


def reserve_work_space_of_products() -> None:
    """Give cuBLAS work space of its own for each stream, without which its sums may be made in another order
    each time; call it before the first product on a GPU."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def launched_by_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def launched_by_slurm() -> bool:
    return is_launched() and "SLURM_PROCID" in os.environ


def is_launched() -> bool:
    """Return whether a launcher started this process as one of several ranks."""
    return "RANK" in os.environ


def ranks_to_start(wanted: str) -> int:
    """Return how many ranks this process is to start, 1 if it is to be the only rank, or is one of those a
    launcher started. `wanted`: a number, or auto: one for each GPU, else one."""
    number = _number_of_ranks(wanted)
    if is_launched():
        there = int(os.environ.get("WORLD_SIZE", "1"))
        if number not in (None, there):
            raise InputError(f"--ranks is {number}, but {there} were started already; leave --ranks away")
        return 1
    if number is not None:
        return number
    import torch  # takes seconds

    return max(1, torch.cuda.device_count()) if torch.cuda.is_available() else 1


MOST_RANKS = 1024


def _number_of_ranks(wanted: str) -> int | None:
    if wanted == "auto":
        return None
    if not wanted.isascii() or not wanted.isdigit() or not 1 <= int(wanted) <= MOST_RANKS:
        raise InputError(
            f"--ranks is {wanted!r}, but must be a number within 1…{MOST_RANKS:,}, or auto; "
            "auto starts one for each GPU"
        )
    return int(wanted)


def tell_launcher(said: str, *, is_unsaid: bool = False) -> None:
    """Leave for torchrun's summary why this rank ended; without torchrun, nothing. `is_unsaid`: somebody else
    on this host is to say it."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path is not None:
        about = {"py_callstack": said, "timestamp": str(int(time.time()))}
        with suppress(OSError):
            Path(path).write_text(
                json.dumps({"message": {"message": said, "extraInfo": about, "is_unsaid": is_unsaid}})
            )


def restarts_so_far() -> int:
    """Return how often torchrun has started the ranks of this machine again because one of them failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def tell_deepspeed(rank_of_node: int, device: str) -> None:
    """Set what DeepSpeed expects of its launcher; there may have been another launcher, or none."""
    os.environ.setdefault("LOCAL_RANK", str(rank_of_node))
    os.environ.setdefault("DS_ACCELERATOR", device)
