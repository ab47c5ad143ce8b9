"""What predict and observe read of the very file that was converted is what the log holds of it."""

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tests.support.command_line import convert
from tpnet_dist.events import EventLog
from tpnet_dist.prediction.link_columns import GivenColumns
from tpnet_dist.prediction.link_file import LinkFile
from tpnet_dist.prediction.times import as_times

PLAIN = b"src,dst,time,w\n1,2,3,0.5\n2,3,4,1.5\n"
TEXTS = pl.DataFrame(
    {
        "src": ["a", "b"],
        "dst": ["b", "c"],
        "time": ["2024-01-01", "2024-01-02"],
        "w": [1.0, 2.0],
        "k": ["x", "y"],
    }
)
CATEGORIES = TEXTS.with_columns(pl.col("src").cast(pl.Categorical), pl.col("k").cast(pl.Categorical))


def numbers(kind: pa.DataType) -> pa.Table:
    times = pa.array([20240131, 20240201]).cast(kind)
    return pa.table({"src": [1.0, 2.0], "dst": [2, 3], "time": times, "w": [True, False]})


@pytest.mark.parametrize(
    ("content", "flags"),
    [
        pytest.param(PLAIN, "", id="plain"),
        pytest.param(b"src, dst, time, w\n1, 2, 3, 4\n", "", id="blanks after commas"),
        pytest.param(b"\xef\xbb\xbf" + PLAIN.replace(b"\n", b"\r\n"), "", id="BOM and CRLF"),
        pytest.param(gzip.compress(PLAIN), "", id="compressed, by its content"),
        pytest.param(b"# c\nsrc,dst,time,w\n1,2,3,4\n# d\n2,3,4,5\n", "--comment #", id="comments"),
        pytest.param(b"src;dst;time;w\n1;2;1,5;0,5\n", "--decimal-comma", id="decimal commas"),
        pytest.param(b"1;2;1,5;0,5\n", "--decimal-comma --features 3", id="decimal commas, no names"),
        pytest.param(
            b"src;dst;time;w\n1;2;1,5;0,5\n2;3;2,5;\n",
            "--decimal-comma --fill mean",
            id="decimal commas, filled",
        ),
        pytest.param(b"src,dst,time,w\n1,2,31.1.2024,4\n", "--time-format %d.%m.%Y", id="dates by a format"),
        pytest.param(TEXTS, "", id="polars texts"),
        pytest.param(CATEGORIES, "--features w,k --one-hot k", id="polars categories"),
        pytest.param(numbers(pa.int64()), "--time-format %Y%m%d", id="days as whole numbers"),
        pytest.param(numbers(pa.decimal128(23, 2)), "--yes", id="decimals"),
        pytest.param(b"src,dst,time,w\n1,2,1975-01-31,4\n", "--time-unit iso", id="dates before 1990"),
        pytest.param(numbers(pa.duration("ms")), "", id="durations"),
        pytest.param(numbers(pa.timestamp("ns", "Asia/Tokyo")), "", id="moments of a zone"),
    ],
)
def test_the_very_file_that_was_converted_is_read_alike(
    tmp_path: Path, content: bytes | pl.DataFrame | pa.Table, flags: str
) -> None:
    path = tmp_path / "log.csv"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, pl.DataFrame):
        content.write_ipc(path)
    else:
        with pa.ipc.new_file(path, content.schema) as writer:
            writer.write_table(content)
    features = () if "--features" in flags else ("--features", "w")
    convert(path, tmp_path / "log", *features, *flags.split())
    log = EventLog(tmp_path / "log")
    assert log.edge_features is not None and log.manifest.preparation is not None
    columns = GivenColumns(preparation=log.manifest.preparation)
    block, events = (
        LinkFile(path, columns, num_features=log.edge_features.shape[1]).read(),
        log.read(0, len(log)),
    )
    raw = log.raw_ids().column("raw_id").cast(pa.string()).to_numpy()
    assert block.dst is not None and block.time is not None and block.features is not None
    assert block.src.astype(str).tolist() == raw[events.src].tolist()
    assert block.dst.astype(str).tolist() == raw[events.dst].tolist()
    assert as_times(block.time, log.manifest, len(events)).tolist() == events.time.tolist()
    assert np.array_equal(block.features, log.edge_features[:])
