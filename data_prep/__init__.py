"""Raw event files, tables and frames to data folders: `convert` and `append` here do what the commands of
`python -m data_prep` do.

log = data_prep.convert("events.parquet", "data/mine", src="who", dst="whom")
log = data_prep.convert(frame, "data/mine", features=["amount", "kind"])
log = data_prep.append(todays_frame, "data/mine")
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpnet_dist.errors import say_failed_imports as _say_failed_imports

_say_failed_imports()

if TYPE_CHECKING:
    from tpnet_dist.events import EventLog


def convert(
    source: Any,  # noqa: ANN401 — whatever holds a table
    out: Path | str,
    *,
    verbose: bool = False,
    **options: Any,  # noqa: ANN401 — those of the command
) -> "EventLog":
    """Make a data folder and open it.

    `source`: a path, a URL or several; a polars DataFrame or LazyFrame, a pyarrow Table, RecordBatchReader or
    Dataset, a pandas DataFrame, a DuckDB relation or whatever else exports an Arrow stream; a TemporalData of
    PyTorch Geometric, whose messages become edge features. Frames are read as they are, batch by batch.

    `options`: the flags of `python -m data_prep convert`, with underscores: src, dst, time, label, features
    (a list of names will do), time_unit, bipartite, sort, yes, overwrite … `verbose`: say what was
    understood.

    What cannot be used raises `tpnet_dist.errors.InputError`, a ValueError with the sentence that the command
    prints, and leaves nothing.
    """
    # Arrow, polars and numba take a second to import
    from data_prep.frames import convert_source

    return convert_source(source, Path(out), options, verbose=verbose)


def append(
    source: Any,  # noqa: ANN401 — whatever holds a table
    folder: Path | str,
    *,
    verbose: bool = False,
    **options: Any,  # noqa: ANN401 — those of the command
) -> "EventLog":
    """Add events after the last one of a data folder, and open it.

    `source`: as for `convert`, with the columns that were converted. `options`: the flags of
    `python -m data_prep append`: sort, yes, node_features … A source without rows changes nothing.
    """
    from data_prep.frames import append_source

    return append_source(source, Path(folder), options, verbose=verbose)
