"""`python -m tpnet_dist.distributed.launcher …`: torchrun, where ranks have the last word.

It takes torchrun's arguments. Exit code 2 is a user's to correct, so no rank is started again after it,
however many restarts there are. Signals reach the ranks, which save; the exit code is then 128 + signal.
Nothing is printed that ranks do not say, unless one was killed without a word, or before it could say it.
"""

import logging
import os
import sys
import tempfile
import uuid

from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher import api
from torch.distributed.run import config_from_args, get_args_parser

from tpnet_dist.errors import BAD_INPUT, leave, spoken

PROGRAM = "python -m tpnet_dist.distributed.launcher"
SECONDS_TO_SAVE = 110
"""For ranks after a signal; TORCH_ELASTIC_SHUTDOWN_TIMEOUT changes it."""


class _Agent(LocalElasticAgent):
    """Starts ranks and watches them."""

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result: RunResult = super()._monitor_workers(worker_group)
        if any(failure.exitcode == BAD_INPUT for failure in result.failures.values()):
            self._remaining_restarts = 0
        return result


def start_ranks(program: str, args: list[str], num_ranks: int, restarts: int) -> int:
    """Start ranks of this command on this machine; return the exit code when all have ended."""
    name = spoken(program).split()
    module = ["tpnet_dist", *name[1:]] if name[0] == "tpnet" else name[-1:]
    how = ["--standalone", f"--nproc_per_node={num_ranks}", f"--max_restarts={restarts}"]
    return launch([*how, "-m", *module, *args], spoken(program))


def launch(args: list[str], program: str) -> int:
    """Do what torchrun does with these arguments; return the exit code."""
    # else torchrun says at length that it takes one; memory of a GPU grows in pieces, without holes
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault(
        "PYTORCH_ALLOC_CONF", os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    )
    logging.disable(logging.CRITICAL)
    known = get_args_parser().parse_args(args)
    if known.standalone:
        known.rdzv_backend, known.rdzv_endpoint, known.rdzv_id = "c10d", "localhost:0", str(uuid.uuid4())
    config, command, command_args = config_from_args(known)
    if known.shutdown_timeout is None and "TORCH_ELASTIC_SHUTDOWN_TIMEOUT" not in os.environ:
        config.shutdown_timeout = SECONDS_TO_SAVE
    vars(api)["LocalElasticAgent"] = _Agent
    with tempfile.TemporaryDirectory(prefix="ranks-") as said:
        config.logs_specs = DefaultLogsSpecs(log_dir=said) if known.log_dir is None else config.logs_specs
        try:
            api.launch_agent(config, command, list(command_args))
        except SignalException as stop:
            return 128 + stop.sigval
        except ChildFailedError as error:
            return exit_code_of(error, program)
    return 0


def exit_code_of(error: ChildFailedError, program: str) -> int:
    """Return the exit code of a run whose ranks failed; say why, if none of them could."""
    refusing = [failure for failure in error.failures.values() if failure.exitcode == BAD_INPUT]
    if refusing:
        # a rank says it, unless another was faster and it was ended
        if all(unsaid := [_unsaid(failure) for failure in refusing]):
            print(unsaid[0], file=sys.stderr, flush=True)
        return BAD_INPUT
    rank, failure = error.get_first_failure()
    if failure.exitcode >= 0:
        return failure.exitcode
    print(
        f"{program}: rank {rank} was ended by {failure.signal_name()}; see what ended it, such as a lack of "
        "memory, and repeat the command to go on",
        file=sys.stderr,
        flush=True,
    )
    return 128 - failure.exitcode


def _unsaid(failure: ProcessFailure) -> str:
    """Return what a rank left to be said on this host by `tell_launcher`; empty if there is nothing."""
    message: object = failure.message
    return str(message["message"]) if isinstance(message, dict) and message.get("is_unsaid") else ""


if __name__ == "__main__":
    leave(launch(sys.argv[1:], PROGRAM))
