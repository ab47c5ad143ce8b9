"""The predictor by itself: what changes scores and what does not, ranking, saving."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.command_line import ROOT
from tests.support.event_logs import write_log
from tests.support.predictors import ITEMS, SHOP_EVENTS, feature_rows, items, untrained_run
from tests.support.sentences import refused
from tests.support.training_runs import small_config
from tpnet_dist import Predictor
from tpnet_dist.config.schema import Config
from tpnet_dist.events.reader import EventLog
from tpnet_dist.memory.memory import Memory

TOLERANCE = 2e-6
"""Links scored in other company: float32 sums may be added in another order."""


def observe_some(predictor: Predictor) -> None:
    later = predictor.now + 1
    predictor.observe([0, 1], [3, 4], [later, later + 1], feature_rows(2))
    predictor.observe(["newcomer", "x2"], ["x2", "new item"], [later + 1, later + 5], feature_rows(2))


# ---- scores ------------------------------------------------------------------------------------------------


def test_everything_in_the_log_has_happened(predictor: Predictor, config: Config) -> None:
    log = EventLog(config.data.folder)
    assert (predictor.now, predictor.num_events) == (log.manifest.last_time, SHOP_EVENTS)


def test_a_link_has_the_same_score_in_any_company(predictor: Predictor) -> None:
    users, times = [str(n % 11) if n % 11 != 2 else "x2" for n in range(ITEMS)], predictor.now + 7
    together = predictor.score(users, items(), times)
    alone = [predictor.score(user, item, times)[0] for user, item in zip(users, items(), strict=True)]
    assert together.dtype == np.float32 and len(set(together.tolist())) == ITEMS
    np.testing.assert_allclose(together, alone, rtol=0, atol=TOLERANCE)


def test_probabilities_are_those_of_the_logits(predictor: Predictor) -> None:
    logits, shares = (
        predictor.score([0, 1], [3, 4], predictor.now, probability=asked) for asked in (False, True)
    )
    np.testing.assert_allclose(shares, 1 / (1 + np.exp(-logits)), rtol=1e-6)


def test_dates_are_times_of_a_log_that_counts_since_1970(tmp_path: Path, predictor: Predictor) -> None:
    write_log(tmp_path / "log", [0, 1, 2] * 20, [3, 4, 5] * 20, 1_700_000_000 + np.arange(60))
    dated = Predictor.load(untrained_run(small_config(tmp_path / "log"), tmp_path / "run"))
    moment = dated.now + 60
    [by_date] = dated.score(0, 3, np.datetime64(moment, "s"))
    assert by_date == dated.score(0, 3, moment)[0]
    with refused():
        predictor.observe([0], [3], [np.datetime64(moment, "s")], feature_rows(1))


@pytest.mark.parametrize("sizes", [[SHOP_EVENTS - 100], [20] * 7], ids=["at once", "by batches"])
def test_observing_the_rest_of_the_log_is_as_good_as_loading_it(
    run: Path, config: Config, predictor: Predictor, sizes: list[int]
) -> None:
    log, half = EventLog(config.data.folder), Predictor.load(run, until=100)
    raw, start = predictor.ids.raw_of, 100
    for size in sizes:
        events = log.read(start, start + size)
        rows = log.edge_features[start : start + size]
        half.observe(raw(events.src.astype(int)), raw(events.dst.astype(int)), events.time, rows)
        start += size
    assert (half.now, half.num_events) == (predictor.now, predictor.num_events)
    users = [0] * ITEMS
    for time in (predictor.now, predictor.now + 3):
        np.testing.assert_allclose(
            half.score(users, items(), time), predictor.score(users, items(), time), rtol=0, atol=TOLERANCE
        )


def test_scores_see_observed_rows_neighbours_and_features(run: Path) -> None:
    """One of them changed at a time: rows by the batch, the others by what is told."""
    first, time = feature_rows(1), 5000
    scores = []
    for item, features in (("3", first), ("4", first), ("3", first + 1)):
        predictor = Predictor.load(run)
        with predictor.batch():
            predictor.observe(["0"], [item], [time], features)
            scores.append(predictor.score("0", "5", time + 1)[0])
        scores.append(predictor.score("0", "5", time + 1)[0])
    assert len(set(scores)) == 6


def test_what_happens_at_the_very_time_is_not_seen_as_a_neighbour(run: Path, predictor: Predictor) -> None:
    time = predictor.now + 10
    with predictor.batch():
        before = predictor.score("0", "5", time)
        predictor.observe(["0"], ["5"], [time], feature_rows(1))
        assert predictor.score("0", "5", time) == before
        assert predictor.score("0", "5", time + 1) != Predictor.load(run).score("0", "5", time + 1)


def test_an_admitted_node_has_a_history_and_an_unknown_one_none(predictor: Predictor) -> None:
    time = predictor.now + 10
    unknown = predictor.score(["who"], ["5"], time, unknown="score")
    assert np.isfinite(unknown).all()
    assert predictor.score(["else"], ["5"], time, unknown="score") == unknown
    predictor.observe(["who"], ["5"], [time], feature_rows(1))
    assert predictor.score(["who"], ["5"], time + 1) != predictor.score(
        ["else"], ["5"], time + 1, unknown="score"
    )


def test_unknown_ids_are_scored_without_limit_and_independently_of_one_another(run: Path) -> None:
    predictor = Predictor.load(run, capacity=1)
    time = predictor.now + 10
    [alone] = predictor.score(["who"], ["5"], time, unknown="score")
    [other] = predictor.score(["0"], ["what"], time, unknown="score")
    [both] = predictor.score(["who"], ["what"], time, unknown="score")
    predictor.observe(["first"], ["5"], [predictor.now], feature_rows(1))  # all the room there is
    later = Predictor.load(run, capacity=7)
    later.observe(["first"], ["5"], [later.now], feature_rows(1))
    strangers = [f"s{n}" for n in range(1500)]
    for some in (predictor, later):
        assert some.score(["0"], ["3"], time).shape == (1,)
        sources = some.score(strangers, ["5"] * 1500, time, unknown="score")
        targets = some.score(["0"] * 1500, strangers, time, unknown="score")
        pairs = some.score(strangers, strangers[::-1], time, unknown="score")
        for scores in (sources, targets, pairs):
            np.testing.assert_allclose(scores, scores[0], rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(targets[0], other, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(pairs[0], both, rtol=0, atol=TOLERANCE)
        best = some.top_k(["who", "0", *strangers[:20]], time, 3, unknown="score")
        assert (best.destinations[2:] == best.destinations[0]).all()
    assert abs(alone - sources[0]) > TOLERANCE  # the item has met somebody since
    np.testing.assert_allclose(
        predictor.score(["who"], ["5"], time, unknown="score"),
        later.score(["who"], ["5"], time, unknown="score"),
        rtol=0,
        atol=TOLERANCE,
    )
    assert predictor.ids.newcomers == [("src", "first")]


def test_a_newcomer_starts_from_the_random_features_it_would_have_in_the_log(tmp_path: Path) -> None:
    """Those of seed, epoch and dense id: so events of it score alike, whether told or in the log."""
    nodes, size, draw = 10, 20, np.random.default_rng(3)
    src, dst, time = *draw.integers(0, nodes, (2, 120)), np.arange(120)
    src[100:], dst[110:] = nodes, nodes + 1
    for name, stop in (("log", 120), ("short", 100)):
        write_log(tmp_path / name, src[:stop], dst[:stop], time[:stop], num_nodes=nodes + 2 * (stop > 100))
    settings = small_config(tmp_path / "log", model={"profile": "paper"}, evaluation={"batch_size": size})
    run = untrained_run(settings, tmp_path / "run")
    wanted, told = Predictor.load(run), Predictor.load(run, data=tmp_path / "short")
    assert told.trained.epoch > 0
    told.observe(src[100:], dst[100:], time[100:])
    assert told.ids.newcomers == [("src", nodes), ("src", nodes + 1)]
    ends = np.arange(nodes + 2)
    for asked in (nodes, nodes + 1, 0):
        found = told.score(np.full(len(ends), asked), ends, 130)
        np.testing.assert_allclose(
            found, wanted.score(np.full(len(ends), asked), ends, 130), rtol=0, atol=TOLERANCE
        )


@pytest.mark.parametrize("profile", ["paper", "published"])
def test_a_newcomers_row_is_drawn_by_seed_epoch_and_its_dense_id(
    config: Config, tmp_path: Path, profile: str
) -> None:
    changed = small_config(Path(config.data.folder), model={"profile": profile})
    predictor = Predictor.load(untrained_run(changed, tmp_path / "run"))
    observe_some(predictor)
    first = len(EventLog(config.data.folder).raw_ids()) + (profile == "published")  # a padding node is there
    assert predictor.ids.find(np.array(["newcomer"]), "src").tolist() == [first]
    assert predictor.ids.find(np.array(["new item"]), "dst").tolist() == [first + 1]
    memory = predictor._past.memory
    assert memory is not None
    alike = Memory(first + 2, memory.walk, memory.width, seed=predictor.trained.seed)
    alike.reset(predictor.trained.epoch)
    found, wanted = memory.table.rows_NLD[first : first + 2], alike.table.rows_NLD[first:]
    assert torch.equal(found[:, 0], wanted[:, 0]) and not torch.equal(found[:, 1], wanted[:, 1])


# ---- ranking -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", ["recent", "uniform"])
def test_top_k_is_what_scoring_all_gives(config: Config, tmp_path: Path, sampling: str) -> None:
    changed = small_config(Path(config.data.folder), model={"sampling": sampling})
    predictor = Predictor.load(untrained_run(changed, tmp_path / "run"))
    observe_some(predictor)
    everything, time = [*items(), "new item"], predictor.now + 2
    best = predictor.top_k(["0", "newcomer"], [time, time + 9], 4)
    for row, (user, when) in enumerate([("0", time), ("newcomer", time + 9)]):
        scores = predictor.score([user] * len(everything), everything, when)
        order = np.argsort(-scores)[:4]
        assert best.destinations[row].tolist() == [everything[place] for place in order]
        np.testing.assert_allclose(best.scores[row], scores[order], rtol=0, atol=TOLERANCE)


def test_pieces_change_no_ranking(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = predictor.top_k(["0", "1", "3"], predictor.now, ITEMS)
    monkeypatch.setattr("tpnet_dist.prediction.link_scorer.LINKS_PER_PIECE", 4)
    monkeypatch.setattr("tpnet_dist.prediction.ranking.LINKS_HELD", 20)
    pieces = predictor.top_k(["0", "1", "3"], predictor.now, ITEMS)
    assert pieces.destinations.tolist() == whole.destinations.tolist()
    np.testing.assert_allclose(pieces.scores, whole.scores, rtol=0, atol=TOLERANCE)


def test_candidates_are_the_only_destinations(predictor: Predictor) -> None:
    best = predictor.top_k("0", predictor.now, 2, candidates=["5", "x2"])
    assert set(best.destinations[0]) == {"5", "x2"}


def test_a_candidate_that_is_given_twice_is_one(predictor: Predictor) -> None:
    once = predictor.top_k("0", predictor.now, 3, ["5", "x2", "3"])
    twice = predictor.top_k("0", predictor.now, 3, ["5", 5, "x2", "5", "3", "x2"])
    assert sorted(twice.destinations[0]) == ["3", "5", "x2"]
    assert twice.destinations.tolist() == once.destinations.tolist()
    assert twice.scores.tolist() == once.scores.tolist()
    with refused():
        predictor.top_k("0", predictor.now, 3, ["5", "5", "x2"])


# ---- saving ------------------------------------------------------------------------------------------------


def test_a_saved_predictor_goes_on_where_it_was(predictor: Predictor, tmp_path: Path) -> None:
    observe_some(predictor)
    predictor.save(tmp_path / "now.pt")
    again = Predictor.load(tmp_path / "now.pt")
    assert (again.now, again.num_events) == (predictor.now, predictor.num_events)
    wanted = predictor.top_k(["newcomer", "0"], predictor.now, ITEMS + 1)
    found = again.top_k(["newcomer", "0"], predictor.now, ITEMS + 1)
    assert found.destinations.tolist() == wanted.destinations.tolist()
    assert found.scores.tolist() == wanted.scores.tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["now.pt"]


def test_a_predictor_that_observed_nothing_is_saved_too(predictor: Predictor, tmp_path: Path) -> None:
    predictor.save(tmp_path / "now.pt")
    assert Predictor.load(tmp_path / "now.pt").score(0, 3, 5000) == predictor.score(0, 3, 5000)
    with refused():
        Predictor.load(tmp_path / "now.pt", until=5)


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, tpnet_dist; assert 'torch' not in sys.modules; assert tpnet_dist.__version__"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


def test_predicting_imports_nothing_slow_that_it_does_not_need() -> None:
    """scikit-learn and what only training's checkpoints take would be more than torch itself."""
    code = "import sys, tpnet_dist.prediction.predictor, tpnet_dist.training.run\n"
    code += "print({'sklearn', 'pandas', 'sympy', 'torch.distributed.checkpoint'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout == "set()\n", done.stderr
