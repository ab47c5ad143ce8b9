"""EdgeBank's four modes give the published scores."""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.shared_folder import shared_folder
from tpnet_dist.evaluation.edge_bank import EdgeBank
from tpnet_dist.events.edge_history import EdgeHistory


def test_scores_are_the_published_ones() -> None:
    path = shared_folder() / "reference/baselines/edgebank_golden.npz"
    if not path.is_file():
        pytest.skip(f"no golden numbers at {path}")
    with np.load(path) as stored:
        golden = dict(stored)
    src, dst = (golden[name].astype(np.int32) for name in ("src", "dst"))
    position, before = np.arange(len(src)), int(golden["history"])
    history = EdgeHistory(src, dst, position, num_nodes=int(max(src.max(), dst.max())) + 1)
    bank = EdgeBank(history, position, golden["time"])
    modes: dict[str, Callable[..., npt.NDArray[np.float32]]] = {
        "unlimited": bank.unlimited,
        "window_fixed_proportion": partial(bank.time_window, share=float(golden["time_window_proportion"])),
        "window_repeat_interval": bank.repeat_interval,
        "repeat_threshold": bank.repeat_threshold,
    }
    for kind, ends in (("positive", "query"), ("negative", "negative")):
        links = [golden[f"{ends}_{end}"].astype(np.int32) for end in ("src", "dst")]
        for mode, score in modes.items():
            assert score(*links, before_event=before).tolist() == golden[f"{kind}/{mode}"].tolist(), mode
