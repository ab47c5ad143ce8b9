"""Sources in buckets, read from a real S3 server on this machine."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from data_prep.__main__ import main
from tests.support.command_line import convert, refusal, run_here
from tpnet_dist.events import EventLog

BUCKET = "events"
COUNT = 5000


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Its address; skips where the server is not installed."""
    moto_server = pytest.importorskip("moto.server", reason="moto[server] is of the dev extra")
    running = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture(autouse=True)
def credentials(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual way."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": server,
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def client(server: str) -> Any:
    boto3 = pytest.importorskip("boto3")
    client = boto3.client(
        "s3",
        endpoint_url=server,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture(scope="module")
def frame(client: Any, tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """Also put into the bucket, as text and as a folder of Parquet."""
    draw = np.random.default_rng(0)
    ends = draw.integers(0, 500, (2, COUNT))
    frame = pl.DataFrame({"src": ends[0], "dst": ends[1], "time": 60 * np.arange(COUNT)})
    folder = tmp_path_factory.mktemp("raw")
    frame.write_csv(folder / "log.csv")
    client.upload_file(str(folder / "log.csv"), BUCKET, "text/log.csv")
    for number in range(11):
        part = folder / f"part-{number}.parquet"
        frame[number * 455 : (number + 1) * 455].write_parquet(part)
        client.upload_file(str(part), BUCKET, f"parts/{part.name}")
    return frame


@pytest.mark.parametrize(
    "given", ["s3://events/text/log.csv", "s3://events/parts", "s3://events/parts/part-*.parquet"]
)
def test_a_bucket_gives_the_folder_of_the_file(frame: pl.DataFrame, tmp_path: Path, given: str) -> None:
    frame.write_csv(tmp_path / "log.csv")
    convert(tmp_path / "log.csv", tmp_path / "here")
    convert(given, tmp_path / "there")
    here, there = (
        {record.file: record.sha256 for record in EventLog(tmp_path / name).manifest.files()}
        for name in ("here", "there")
    )
    assert here == there


def test_an_endpoint_may_be_said_in_the_address(
    frame: pl.DataFrame, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    options = f"scheme=http&endpoint_override={server.removeprefix('http://')}"
    convert(f"s3://events/text/log.csv?{options}", tmp_path / "out")
    assert len(EventLog(tmp_path / "out")) == COUNT


def test_credentials_in_the_address_are_used_and_neither_shown_nor_kept(
    frame: pl.DataFrame, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    options = f"scheme=http&endpoint_override={server.removeprefix('http://')}"
    done = run_here(
        main, "convert", f"s3://key:hidden@events/text/log.csv?{options}", tmp_path / "out", "--comment", "#"
    )
    assert done.returncode == 0, done.stderr
    assert "hidden" not in done.stdout + (tmp_path / "out" / "manifest.json").read_text()
    refused = run_here(main, "convert", f"s3://key:hidden@events/none.csv?{options}", tmp_path / "none")
    assert refused.returncode == 2 and "hidden" not in refused.stderr


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ("s3://no-such-bucket/log.csv", "check the address, and the bucket's name in it"),
        ("s3://events/text/no-such-key.csv", "no such file or folder"),
        ("s3://events/text/*.parquet", "no file matches"),
    ],
)
def test_what_is_not_there_is_refused(frame: pl.DataFrame, tmp_path: Path, given: str, remedy: str) -> None:
    sentence = refusal("convert", given, tmp_path / "out")
    assert given in sentence and remedy in sentence
    assert list(tmp_path.iterdir()) == []


def test_a_missing_right_is_refused(frame: pl.DataFrame, server: str, tmp_path: Path) -> None:
    def require_rights(after: int) -> None:
        address, kind = f"{server}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(address, str(after).encode(), kind)).read()

    require_rights(0)
    try:
        sentence = refusal("convert", "s3://events/text/log.csv", tmp_path / "out")
    finally:
        require_rights(1 << 30)
    assert "check the credentials and the rights to read it" in sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_endpoint_that_does_not_answer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert "s3://events/text/log.csv" in refusal("convert", "s3://events/text/log.csv", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
