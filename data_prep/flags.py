"""What the commands share: numbers written 1e6, and the closing line."""

from pathlib import Path
from typing import Annotated

from tyro.constructors import PrimitiveConstructorSpec

from tpnet_dist.events.manifest import Manifest


def _whole_number(words: list[str]) -> int:
    number = float(words[0])
    if not number.is_integer():
        raise ValueError(f"{words[0]} is not a whole number")
    return int(number)


Count = Annotated[
    int,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="COUNT",
        instance_from_str=_whole_number,
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    ),
]
"""A whole number that may be written 1e6."""


def say_done(manifest: Manifest, folder: Path, seconds: float) -> None:
    size = sum(record.bytes for record in manifest.files()) / 1e6
    widths = [
        f"{record.width} {name} feature{'s' if record.width > 1 else ''}"
        for name, record in (("edge", manifest.edge_features), ("node", manifest.node_features))
        if record
    ]
    print(
        f"{folder}: {manifest.events:,} events, {manifest.nodes:,} nodes, {len(manifest.shards)} shard(s), "
        f"{', '.join(widths) or 'no features'}, {size:,.1f} MB in {seconds:.1f} s "
        f"({manifest.events / max(seconds, 1e-9):,.0f} rows/s)"
    )
