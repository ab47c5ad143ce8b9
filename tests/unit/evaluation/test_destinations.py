"""Recency and popularity of destinations against lists."""

from pathlib import Path

import numpy as np

from tests.support.event_logs import write_log
from tpnet_dist.evaluation.baselines import best_of
from tpnet_dist.evaluation.destinations import Destinations
from tpnet_dist.events.view import EventView

SRC, DST, TIME = [5, 0, 5, 1, 2, 5], [1, 2, 1, 3, 2, 4], [0, 3, 3, 7, 9, 9]
NODES = np.arange(6, dtype=np.int32)
ANY = np.zeros(6, np.int32)


def test_scores_follow_what_came_before_the_batch(tmp_path: Path) -> None:
    log = write_log(tmp_path, SRC, DST, TIME)
    destinations = Destinations.of(EventView(log, 0, 2), EventView(log, 2, 6))
    popularity = {0: [0, 0, 0, 0, 0, 0], 3: [0, 2, 1, 0, 0, 0], 6: [0, 2, 2, 1, 1, 0]}
    for before, wanted in popularity.items():
        assert destinations.popularity(ANY, NODES, before).tolist() == wanted
    order = {0: [0, 0, 0, 0, 0, 0], 3: [0, 1, 1, 0, 0, 0], 6: [0, 1, 3, 2, 3, 0]}
    for before, wanted in order.items():
        # what counts is which is later; events of one time are equally late
        recency = destinations.recency(ANY, NODES, before)
        assert np.unique(recency, return_inverse=True)[1].tolist() == wanted


def test_the_best_of_several_is_chosen_by_ap_for_each_kind() -> None:
    one = {"transductive": {"random": {"ap": 0.7, "auc": 0.6}, "historical": {"ap": 0.5, "auc": 0.9}}}
    other = {"transductive": {"random": {"ap": 0.6, "auc": 0.9}, "historical": {"ap": 0.6, "auc": 0.1}}}
    assert best_of([one, other]) == {
        "transductive": {"random": {"ap": 0.7, "auc": 0.6}, "historical": {"ap": 0.6, "auc": 0.1}}
    }
