"""A checkpoint in the released form, loaded by the predictor, gives the published logits."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from tests.reference.golden_file import GoldenFile
from tests.reference.golden_model import GoldenModel, to_ours
from tests.support.event_logs import write_log
from tests.support.shared_folder import shared_folder
from tpnet_dist import Predictor
from tpnet_dist.config.schema import Config, MemoryConfig
from tpnet_dist.models.tpnet.published_names import RANDOM_FEATURES

TOLERANCE = 1e-5


def golden_file() -> GoldenFile:
    path = shared_folder() / "reference" / "uci_golden.npz"
    if not path.is_file():
        pytest.skip(f"no golden numbers at {path}")
    return GoldenFile(path)


def load(golden: GoldenFile, folder: Path) -> Predictor:
    """From files as a user has them: a data folder with the published ids, and the pickled state."""
    raw_ids = pa.table({"raw_id": np.arange(1, golden.num_nodes)})
    src, dst = to_ours(golden["src"]), to_ours(golden["dst"])
    write_log(folder / "log", src, dst, golden["time"], raw_ids=raw_ids, num_nodes=golden.num_nodes - 1)
    state = {**GoldenModel(golden).weights, RANDOM_FEATURES: torch.from_numpy(golden["H0"])}
    torch.save(state, folder / "theirs.pkl")
    return Predictor.load(
        folder / "theirs.pkl",
        data=folder / "log",
        config=Config(memory=MemoryConfig(decay=float(golden["decay"]))),
        until=GoldenModel(golden).first_event,
    )


def test_published_logits_are_reproduced(tmp_path: Path) -> None:
    golden = golden_file()
    predictor = load(golden, tmp_path)
    columns = (golden[f"query_{name}"] for name in ("src", "dst", "neg", "time"))
    found = []
    with predictor.batch():
        for src, dst, negative, time in zip(*columns, strict=True):
            found.append(predictor.score([src, src], [dst, negative], time))
            predictor.observe([src], [dst], [time])
    wanted = np.stack([golden.read("positive_logits"), golden.read("negative_logits")], axis=1)
    np.testing.assert_allclose(np.stack(found), wanted, rtol=0, atol=TOLERANCE)
