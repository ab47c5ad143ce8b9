"""Who this process is among the ranks. Nobody else reads the environment or starts process groups."""

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import DistError, HashStore, PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.distributed.exchange import Exchange, LocalExchange, RankExchange
from tpnet_dist.distributed.launch_environment import let_streams_run_side_by_side, restarts_so_far
from tpnet_dist.distributed.phase import Phase
from tpnet_dist.distributed.rendezvous import agree_on_start
from tpnet_dist.distributed.stop_request import StopRequest
from tpnet_dist.errors import InputError, UnmetError, correctable, sentence_of

Answer = TypeVar("Answer")

DEFAULT_TIMEOUT = timedelta(minutes=10)

_worlds = count()
_stores: list[Store] = []
"""Connections to the store of the launch, one for each world. They are never closed: the first rank's may be
the server that others ask for the next world while this rank still leaves the last."""


@dataclass(frozen=True)
class World:
    """Says which rank this is, how many there are, and on which device it computes."""

    rank: int
    num_ranks: int
    rank_of_node: int
    ranks_per_node: int
    device: torch.device
    timeout: timedelta
    host_group: dist.ProcessGroup | None = None
    """Carries objects and whatever else is the host's alone, and waits for no GPU; None: the default group
    does."""
    store: Store | None = None
    """The store of the launch, which outlives ranks that are started again; None in a world of one."""
    start: str = ""
    """A name that these ranks share with one another, and with no ranks that were started before or come
    after."""
    number: int = 0
    """The number of worlds that this process has joined before; the same on all ranks of a script, and when
    they are started again."""
    phase: Phase = field(default_factory=Phase, compare=False)
    stop: StopRequest = field(default_factory=StopRequest, compare=False)

    def batch_slices(self, wanted: int | None) -> BatchSlices:
        """Return how batches are shared out in `wanted` microbatches, or as many as serve the device."""
        return BatchSlices.of(wanted, self.rank, self.num_ranks, self.device.type)

    def new_exchange(self) -> Exchange:
        """Return an exchange on a process group of its own: its collectives never mix with the gradients'."""
        if self.num_ranks == 1:
            return LocalExchange()
        if self.device.type == "cpu":
            return RankExchange(self._new_group("gloo"), self.device)
        return RankExchange(self._new_group("nccl"), self.device, self._new_group("gloo"))

    def new_host_exchange(self) -> Exchange:
        """Return an exchange for tensors of the host, which NCCL does not take."""
        if self.device.type == "cpu" or self.num_ranks == 1:
            return self.new_exchange()
        return RankExchange(self._new_group("gloo"), torch.device("cpu"))

    def _new_group(self, backend: str) -> dist.ProcessGroup:
        """Return a new group of all ranks. NCCL's communicator is made at once: whoever used it first would
        make it otherwise, in a thread of its own and while others wait."""
        device = self.device if backend == "nccl" else None
        group = dist.new_group(backend=backend, timeout=self.timeout, device_id=device)
        assert isinstance(group, dist.ProcessGroup)
        return group

    def hold_to_timeout(self, group: dist.ProcessGroup) -> None:
        """Let a group that a library made wait for others no longer than ours do."""
        dist.distributed_c10d._set_pg_timeout(self.timeout, group)

    def on_first_rank(self, act: Callable[[], Answer]) -> Answer:
        """Return what the first rank's `act` gives, on every rank; what it refuses, every rank refuses."""
        outcome: list[Any] = [None, None]
        if self.rank == 0:
            try:
                outcome[0] = act()
            except Exception as error:
                if (refusal := correctable(error)) is None:
                    raise
                outcome[1] = refusal
        dist.broadcast_object_list(outcome, src=0, group=self.host_group)
        if outcome[1] is not None:
            raise outcome[1]
        answer: Answer = outcome[0]
        return answer

    def on_every_rank(self, act: Callable[[], Answer]) -> Answer:
        """Return what `act` gives on this rank; what one rank refuses, every rank refuses.

        This is for what may fail on one host alone, which otherwise would end without a word, or leave the
        others waiting. `act` itself must not wait for other ranks.
        """
        answer: Any = None
        refusal: Exception | None = None
        try:
            answer = act()
        except Exception as error:
            if (refusal := correctable(error)) is None:
                raise
        for rank, first in enumerate(self.gather_objects(refusal)):
            if first is not None:
                raise InputError(f"rank {rank}: {sentence_of(first)}") if rank else first
        given: Answer = answer
        return given

    def gather_objects(self, mine: Answer) -> list[Answer]:
        """Return each rank's object, in the order of ranks, on every rank."""
        everybody: list[Any] = [None] * self.num_ranks
        dist.all_gather_object(everybody, mine, group=self.host_group)
        return everybody

    def stop_requested(self) -> signal.Signals | None:
        """Return the signal that any rank got, or None. Every rank must ask, and gets the same answer."""
        self.stop.is_polled = True
        number = torch.tensor([self.stop.number])
        dist.all_reduce(number, dist.ReduceOp.MAX, group=self.host_group)
        return signal.Signals(int(number)) if number else None

    def wait_for_all(self) -> None:
        # a barrier takes a tensor of the GPU, and warns of it
        dist.all_reduce(torch.zeros(1), group=self.host_group)

    def same_after_restarts(self, key: str, value: str) -> str:
        """Return what was said first for `key` in this launch: `value`, or what an earlier start said."""
        if self.store is None:
            return value
        said: bytes = self.store.compare_set(f"launch/{self.number}/{key}", "", value)
        return said.decode()

    def is_first_start(self) -> bool:
        """Return whether no ranks of this launch were there before, as far as the first rank can know: the
        store may be as new as the ranks, and torchrun counts by machine."""
        return not restarts_so_far() and self.same_after_restarts("start", self.start) == self.start

    def require_agreement(self, facts: Mapping[str, Any]) -> None:
        """Refuse to start where ranks see different data or settings, naming the rank and the key."""
        everybody = self.gather_objects(dict(facts))
        first = everybody[0]
        for rank, theirs in enumerate(everybody):
            for key in sorted({*first, *theirs}):
                if theirs.get(key) != first.get(key):
                    raise InputError(
                        f"rank {rank} has {key} = {theirs.get(key)!r} where rank 0 has {first.get(key)!r}; "
                        "start all ranks with the same data folder and settings"
                    )


@contextmanager
def join_world(timeout: timedelta = DEFAULT_TIMEOUT) -> Iterator[World]:
    """Join the ranks torchrun started; a plain `python` is a world of one. Worlds may follow one another."""
    if dist.is_initialized():
        raise InputError(
            "this process has a process group of torch.distributed already, and ranks need one of their own; "
            "call torch.distributed.destroy_process_group() before"
        )
    let_streams_run_side_by_side()
    rank_of_node = int(os.environ.get("LOCAL_RANK", "0"))
    ranks_per_node = int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("LOCAL_SIZE", "1"))
    device = device_of(rank_of_node, ranks_per_node)
    has_gpu = device.type == "cuda"
    if has_gpu:
        torch.cuda.set_device(device)
    store, start = _join_ranks(device, ranks_per_node, timeout)
    world = World(
        rank=dist.get_rank(),
        num_ranks=dist.get_world_size(),
        rank_of_node=rank_of_node,
        ranks_per_node=ranks_per_node,
        device=device,
        timeout=timeout,
        host_group=dist.new_group(backend="gloo", timeout=timeout) if has_gpu else None,
        store=store,
        start=start,
        number=next(_worlds),
        stop=StopRequest(has_peers=store is not None),
    )
    try:
        yield world
    except BaseException:
        # others may be waiting, and their collectives with ours
        if store is None:
            _destroy_groups()
        raise
    _destroy_groups()


def _destroy_groups() -> None:
    """Destroy the process groups, through DeepSpeed if it was used: it would use them in the next world."""
    deepspeed = sys.modules.get("deepspeed.comm")
    used = deepspeed if deepspeed is not None and deepspeed.is_initialized() else dist
    used.destroy_process_group()


def device_of(rank_of_node: int, ranks_per_node: int) -> torch.device:
    """Return a GPU of the rank's own where there are any, else the host's cores."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    num_gpus = torch.cuda.device_count()
    if ranks_per_node > num_gpus > 1:
        raise _too_few_gpus(ranks_per_node, num_gpus)
    # a scheduler may have bound each rank to a GPU of its own, which is then the only one it sees
    return torch.device("cuda", rank_of_node if num_gpus > 1 else 0)


def _too_few_gpus(ranks_per_node: int, num_gpus: int) -> InputError:
    return InputError(
        f"{ranks_per_node} ranks were started on a host with {num_gpus} GPU(s), but each takes one; "
        f"start torchrun with --nproc_per_node={num_gpus}, or with CUDA_VISIBLE_DEVICES= for its cores"
    )


def has_own_gpu(store: Store, rank: int, num_ranks: int, gpu: str) -> bool:
    """Return whether no other rank has this GPU; `gpu` names it among all of all hosts."""
    store.set(f"gpu-{rank}", gpu)
    return all(store.get(f"gpu-{other}").decode() != gpu for other in range(num_ranks) if other != rank)


def _name_of_gpu(device: torch.device) -> str:
    about = torch.cuda.get_device_properties(device)
    return f"{socket.gethostname()} {getattr(about, 'uuid', device.index)}"


def _join_ranks(device: torch.device, ranks_per_node: int, timeout: timedelta) -> tuple[Store | None, str]:
    """Return the store of the launch, if there is a launcher, and the name of this start."""
    how: dict[str, Any] = {"backend": "gloo", "timeout": timeout}
    if device.type == "cuda":
        how |= {"backend": "nccl", "device_id": device}
    if "RANK" not in os.environ:
        # a world of one needs no address: a store in this process serves
        alone = HashStore()
        dist.init_process_group(store=alone, rank=0, world_size=1, **how)
        return None, ""
    try:
        store, rank, num_ranks = next(rendezvous("env://", timeout=timeout))
        _stores.append(store)
        start = agree_on_start(store, rank, num_ranks, timeout)
        # torchrun's store outlives its ranks: without a name of their own, ranks that are started again
        # would find the addresses of those before
        own = PrefixStore(f"start-{start}", store)
        if device.type == "cuda" and not has_own_gpu(own, rank, num_ranks, _name_of_gpu(device)):
            raise _too_few_gpus(ranks_per_node, torch.cuda.device_count())
        dist.init_process_group(store=own, rank=rank, world_size=num_ranks, **how)
    except DistError as error:
        reason = str(error).splitlines()[0]
        raise UnmetError(
            f"rank {os.environ['RANK']} did not reach the others: {reason}; see what ended or holds up the "
            "launcher or its ranks, and start all again"
        ) from error
    return store, start
