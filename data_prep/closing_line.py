"""What a command says when it has made a data folder."""

from pathlib import Path

from tpnet_dist.events.manifest import Manifest


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
