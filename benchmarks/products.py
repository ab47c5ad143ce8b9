"""The matrix products of a step by themselves: noted while the step runs, then repeated and timed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from benchmarks.measuring import seconds_of
from benchmarks.train_step_ranks import Launch, contestant
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import World

_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "linear", "matmul")
_REPEATS = 3


@dataclass(frozen=True)
class Lies:
    """How a tensor lies in memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    def numbers(self) -> Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype).fill_(0.5)


@dataclass(frozen=True)
class Products:
    """The matrix products of one step."""

    count: int
    seconds: float
    """The least of a few repetitions."""


@dataclass
class _Notes(TorchDispatchMode):
    """Notes every product, and what its factors look like."""

    calls: list[tuple[OpOverload, Any, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        name = func._overloadpacket.__name__.removesuffix("_")
        if name in _PRODUCTS:
            self.calls.append((func, *tree_map(_how_it_lies, (args, kwargs or {}))))
        return func(*args, **(kwargs or {}))


def _how_it_lies(value: object) -> object:
    if not isinstance(value, Tensor):
        return value
    return Lies(tuple(value.shape), value.stride(), value.dtype)


def seconds_of_products(
    world: World, launch: Launch, config: Config, phase: Literal["training", "scoring"]
) -> Products:
    """Time the matrix products of one more step of this process's model."""
    trainer = contestant(world, launch, config)
    with _Notes() as notes:
        if phase == "training":
            trainer.learn(1)
        else:
            trainer.score(1)
    numbers: dict[Lies, Tensor] = {}

    def given(value: object) -> object:
        if not isinstance(value, Lies):
            return value
        if value not in numbers:
            numbers[value] = value.numbers()
        return numbers[value]

    calls = [(func, *tree_map(given, (args, kwargs))) for func, args, kwargs in notes.calls]

    @torch.inference_mode()
    def multiply() -> None:
        for func, args, kwargs in calls:
            func(*args, **kwargs)

    multiply()
    return Products(len(calls), min(seconds_of(multiply) for _ in range(_REPEATS)))
