"""A large Parquet file of raw events for benchmarks, written block by block."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROWS_PER_GROUP = 1_000_000
EVENTS_PER_SECOND = 4


def write_raw_parquet(
    path: Path, *, events: int, nodes: int, text: bool, seed: int = 0, after: int = 0
) -> None:
    """Write uniform pairs among so many nodes, in order of time; ids are numbers, or names of about ten
    letters. `after`: how many events came before."""
    draw, time = np.random.default_rng(seed), 1_600_000_000
    id_type = pa.string() if text else pa.int64()
    schema = pa.schema([("src", id_type), ("dst", id_type), ("time", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, events, ROWS_PER_GROUP):
            count = min(ROWS_PER_GROUP, events - start)
            ends = [pa.array(draw.integers(0, nodes, count)) for _ in range(2)]
            if text:
                ends = [pc.binary_join_element_wise("user", pc.cast(each, pa.string()), "-") for each in ends]
            times = time + (after + np.arange(start, start + count)) // EVENTS_PER_SECOND
            writer.write_table(pa.table([*ends, pa.array(times)], schema=schema))
