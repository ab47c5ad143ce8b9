"""Tables in memory as sources, and the conversion of whatever a caller in Python has."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

from data_prep.append_command import Append
from data_prep.appending import append
from data_prep.convert_command import Convert
from data_prep.pipeline import convert
from data_prep.table_readers import ROWS_PER_BATCH, MemoryReader
from tpnet_dist.config.keys import did_you_mean, keys_of
from tpnet_dist.config.keyword_settings import value_of
from tpnet_dist.errors import InputError
from tpnet_dist.events import EventLog
from tpnet_dist.files.progress import Display

_COMMAND_ONLY = {"paths", "debug", "dry_run"}


def convert_source(source: Any, out: Path, options: Mapping[str, Any], *, verbose: bool) -> EventLog:  # noqa: ANN401
    """Convert tables or files. `options`: as the command has them."""
    said, nodes = _understood(options, Convert)
    paths = _paths_of(source)
    table = None if paths is not None else reader_of(source)
    if table is not None and _is_temporal_data(source):
        said = {"src": "src", "dst": "dst", "time": "t", **said}
        if "msg" in table.schema.names:
            said.setdefault("features", "msg")
    command = Convert(paths=(*(paths or ()), str(out)), **said)
    job = command.job(list(paths or ()), out)
    if job.node_table is not None:
        job = replace(job, node_table=replace(job.node_table, table=nodes))
    convert(
        job,
        out,
        overwrite=command.overwrite,
        display=Display(),
        tell=print if verbose else lambda line: None,
        tables=[] if table is None else [table],
    )
    return EventLog(out)


def append_source(source: Any, folder: Path, options: Mapping[str, Any], *, verbose: bool) -> EventLog:  # noqa: ANN401
    """Append tables or files. `options`: as the command has them."""
    said, nodes = _understood(options, Append)
    paths = _paths_of(source)
    table = None if paths is not None else reader_of(source)
    appending = Append(paths=(*(paths or ()), str(folder)), **said).appending(list(paths or ()))
    append(
        replace(appending, node_table=nodes),
        folder,
        display=Display(),
        tell=print if verbose else lambda line: None,
        tables=[] if table is None else [table],
    )
    return EventLog(folder)


def _understood(
    options: Mapping[str, Any], command: type[Convert | Append]
) -> tuple[dict[str, Any], MemoryReader | None]:
    """Return the command's arguments, each of its type, and node features that are a table in memory."""
    keys = {name: key for name, key in keys_of(command).items() if name not in _COMMAND_ONLY}
    said: dict[str, Any] = {}
    nodes = None
    for name, value in options.items():
        if name not in keys:
            raise InputError(f"unknown option {name}; {did_you_mean(name, keys)}")
        if name == "node_features" and value is not None and not isinstance(value, str | Path):
            nodes = reader_of(value, "the table of node features")
            value = nodes.name
        said[name] = value_of(keys[name], _as_words(value) if keys[name].kind is str else value)
    return said, nodes


def _as_words(value: object) -> object:
    """Write names and positions of columns as the command line has them."""
    if isinstance(value, list | tuple):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(value)
        return line.getvalue()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _paths_of(source: Any) -> list[str] | None:  # noqa: ANN401
    """Return the paths; None if it is no path and no list of paths."""
    if isinstance(source, str | Path):
        return [str(source)]
    if isinstance(source, list | tuple) and source and all(isinstance(each, str | Path) for each in source):
        return [str(each) for each in source]
    return None


def reader_of(source: Any, name: str = "") -> MemoryReader:  # noqa: ANN401
    """Return the batches of a table; InputError if it is none."""
    name = name or f"the {type(source).__name__}"
    if isinstance(source, pl.LazyFrame):
        schema = pl.DataFrame(schema=source.collect_schema()).to_arrow().schema
        return MemoryReader(name, schema, _batches_of_lazy(source))
    if isinstance(source, pl.DataFrame):
        source = source.to_arrow()
    if isinstance(source, ds.Dataset):
        return MemoryReader(name, source.schema, source.to_batches(batch_size=ROWS_PER_BATCH))
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        return MemoryReader(name, source.schema, source.to_batches(max_chunksize=ROWS_PER_BATCH))
    if _is_temporal_data(source):
        return reader_of(_table_of_temporal_data(source), name)
    if type(source).__module__.partition(".")[0] == "pandas":
        return reader_of(_table_of_pandas(source, name), name)
    if hasattr(source, "__arrow_c_stream__"):
        stream = pa.RecordBatchReader.from_stream(source)
        return MemoryReader(name, stream.schema, stream)
    raise InputError(
        f"{name}: is neither a path nor a table; give a path, a polars, pandas or Arrow table, a DuckDB "
        "relation, "
        "or a TemporalData"
    )


def _batches_of_lazy(frame: pl.LazyFrame) -> Iterator[pa.RecordBatch]:
    """Yield batches as they are computed; errors of the query are the caller's."""
    for part in frame.collect_batches(chunk_size=ROWS_PER_BATCH, maintain_order=True):
        yield from part.to_arrow().to_batches()


def _table_of_pandas(source: Any, name: str) -> pa.Table:  # noqa: ANN401
    try:
        return pa.Table.from_pandas(source, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        text = " ".join(str(error).split())
        raise InputError(
            f"{name}: cannot be read as columns of one type and name each ({text:.120}); correct it"
        ) from error


def _is_temporal_data(source: Any) -> bool:  # noqa: ANN401
    """Return whether it is PyTorch Geometric's data; that package need not be there to know its own."""
    return all(hasattr(getattr(source, name, None), "numpy") for name in ("src", "dst", "t"))


def _table_of_temporal_data(source: Any) -> pa.Table:  # noqa: ANN401
    columns: dict[str, pa.Array] = {}
    for name in ("src", "dst", "t", "y", "msg"):
        tensor = getattr(source, name, None)
        if tensor is None:
            continue
        values = tensor.detach().cpu().numpy()
        if values.ndim == 1:
            columns[name] = pa.array(values)
        else:
            matrix = np.ascontiguousarray(values, np.float32).reshape(len(values), -1)
            columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{len(column):,} of {name}" for name, column in columns.items())
        raise InputError(f"the TemporalData: has {lengths}, but every event has one of each; complete it")
    return pa.table(columns)
