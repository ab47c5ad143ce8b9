"""Devices a plan can be made for: published figures from devices.toml, or measured ones from a file."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any

from tpnet_dist.config.toml_files import parse_toml
from tpnet_dist.errors import InputError
from tpnet_dist.files.user_paths import read_settings
from tpnet_dist.sizing.rank_memory import Place, RankMemory


@dataclass(frozen=True, kw_only=True)
class Device:
    """The device that one rank computes on. Bytes and seconds; see devices.toml for each figure."""

    title: str
    source: str
    memory_bytes: int
    flops: float
    bandwidth: float
    link_bandwidth: float
    network_bandwidth: float
    host_memory_bytes: int
    ranks_per_host: int
    base_bytes: int
    """The bytes that a process holds on the device before it has any data."""
    host_base_bytes: int = 3_000_000_000
    """The bytes that a process beside a GPU holds in host memory before it has any data; assumed, see
    devices.toml."""
    bfloat16_flops: float | None = None
    tf32_flops: float | None = None
    flops_share: float = 0.7
    bandwidth_share: float = 0.8
    link_share: float = 0.7
    network_share: float = 0.7
    seconds_per_operation: float = 5e-6
    """Seconds to start one: a kernel, or a call."""
    seconds_per_collective: float = 3e-5
    """Seconds of a collective of two ranks that move next to nothing."""
    special_functions_per_second: float | None = None
    """Exponentials and the like, where they and not bytes limit an operation."""
    host_seconds_per_slot: float = 4e-7
    """Seconds to find a neighbour and plan the fetch of its row, on a core of the host."""
    interpreter_share: float = 0.5
    """The share of planning that holds Python's interpreter, so that no operation is started meanwhile."""
    is_host: bool = False
    """Whether rows, model and planning share the same cores and the same memory."""

    @property
    def type(self) -> str:
        """The name of its type in torch."""
        return "cpu" if self.is_host else "cuda"

    def __post_init__(self) -> None:
        for field in fields(self):
            value, name = getattr(self, field.name), field.name
            kind = {"title": str, "source": str, "is_host": bool}.get(name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number if kind is None else isinstance(value, kind)):
                rule = f"be {'a number' if kind is None else f'of type {kind.__name__}'}"
                raise InputError(f"{name} is {value!r}, but must {rule}; correct the device's file")
            if is_number and not 0 < value < math.inf:
                raise InputError(
                    f"{name} is {value}, but must be above 0 and finite; correct the device's file"
                )
        if not float(self.ranks_per_host).is_integer():
            raise InputError(
                f"ranks_per_host is {self.ranks_per_host}, but must be whole; correct the device's file"
            )

    def rank_memory(self, num_ranks: int, place: Place = "device") -> RankMemory:
        """Return the memory of a rank where nobody else is at work, on its device or on the host."""
        if not self.is_host and place == "device":
            return RankMemory(self.memory_bytes - self.base_bytes, 1, is_host=False)
        sharers = min(num_ranks, self.ranks_per_host)
        base = self.base_bytes if self.is_host else self.host_base_bytes
        return RankMemory(self.host_memory_bytes - sharers * base, sharers, is_host=True)

    def rate(self, precision: str = "float32") -> float:
        """Return the operations per second in matrix products that can be hoped for."""
        faster = {"bfloat16": self.bfloat16_flops, "tf32": self.tf32_flops}.get(precision)
        return (faster or self.flops) * self.flops_share

    def bytes_per_second(self) -> float:
        return self.bandwidth * self.bandwidth_share

    def link_bytes_per_second(self, num_ranks: int) -> float:
        """Return the rate from one rank to all others; on several hosts the slower of its link and its share
        of the net."""
        within = self.link_bandwidth * self.link_share
        if num_ranks <= self.ranks_per_host:
            return within
        share_outside = 1 - (self.ranks_per_host - 1) / (num_ranks - 1)
        return min(within, self.network_bandwidth * self.network_share / self.ranks_per_host / share_outside)

    def ring_bytes_per_second(self, num_ranks: int) -> float:
        """Return the rate from one rank to the next of a ring host after host: one of a host's ranks uses its
        net."""
        within = self.link_bandwidth * self.link_share
        if num_ranks <= self.ranks_per_host:
            return within
        return min(within, self.network_bandwidth * self.network_share)

    def seconds_to_meet(self, num_ranks: int) -> float:
        """Return the latency of a collective: what two ranks take, for each doubling of the ranks, as in a
        tree."""
        return self.seconds_per_collective * (num_ranks - 1).bit_length()


def device_named(name: str) -> Device:
    """Read a device of devices.toml, or of a TOML file of one's own."""
    if name.endswith(".toml"):
        return _from_file(Path(name))
    tables = tomllib.loads(files("tpnet_dist.sizing").joinpath("devices.toml").read_text())
    if name not in tables:
        near = get_close_matches(name, tables, n=1)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else f"choose one of {', '.join(tables)}, or a file ending in .toml"
        )
        raise InputError(f"device {name!r} is unknown; {hint}")
    return _device(tables[name], name)


def _from_file(path: Path) -> Device:
    content = read_settings(path, "device's TOML file")
    try:
        table = parse_toml(content)
    except InputError as error:
        raise InputError(f"{path}: {error}; correct it, or write it anew with --calibrate {path}") from error
    return _device(table, str(path))


def _device(table: Mapping[str, Any], where: str) -> Device:
    known = {field.name: field for field in fields(Device)}
    unknown = sorted(set(table) - set(known))
    if unknown:
        near = get_close_matches(unknown[0], known, n=1)
        raise InputError(
            f"{where}: key {unknown[0]!r} is unknown; "
            + (f"did you mean {near[0]}?" if near else "remove it")
        )
    missing = [name for name, field in known.items() if field.default is MISSING and name not in table]
    if missing:
        raise InputError(
            f"{where}: lacks {', '.join(missing)}, which a device must have; add them as in "
            "tpnet_dist/sizing/devices.toml, or write the file with --calibrate"
        )
    return Device(**table)
