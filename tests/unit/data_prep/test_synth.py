"""Synthetic logs: what they promise, and that the social one rewards a model that sees walks."""

from collections import Counter, defaultdict
from itertools import groupby
from math import exp

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score

from data_prep import synth_random
from data_prep.synth import FIRST_TIME, Recipe, make_log, write_csv
from data_prep.synth_social import SocialHabits
from tests.support.sentences import refused
from tpnet_dist.events import EventColumns, EventLog
from tpnet_dist.events.shards import COLUMNS, concatenate

KINDS = ("random", "social")


def draw(kind, events, *, average_degree=60.0, seed=0, **habits) -> EventColumns:
    recipe = Recipe(
        kind=kind, events=events, average_degree=average_degree, seed=seed, habits=SocialHabits(**habits)
    )
    return concatenate(list(recipe.chunks()))


def same_events(one: EventColumns, other: EventColumns) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in COLUMNS)


def degrees(events: EventColumns) -> np.ndarray:
    return np.bincount(np.concatenate((events.src, events.dst)))


# ---- both kinds


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_log_and_another_seed_another(kind):
    assert same_events(draw(kind, 3000, seed=7), draw(kind, 3000, seed=7))
    assert not same_events(draw(kind, 3000, seed=7), draw(kind, 3000, seed=8))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("events", [1, 2, 17, 3000])
@pytest.mark.parametrize("average_degree", [0.5, 60.0, 1e9])
def test_any_size_gives_whole_sorted_times_and_pairs_of_two_known_nodes(kind, events, average_degree):
    log = draw(kind, events, average_degree=average_degree)
    nodes = max(2, round(2 * events / average_degree))
    assert len(log) == events
    assert log.time.dtype == np.int64 and log.time[0] >= FIRST_TIME
    assert np.all(np.diff(log.time) >= 0)
    assert np.all(log.src != log.dst)
    assert min(log.src.min(), log.dst.min()) >= 0 and max(log.src.max(), log.dst.max()) < nodes


@pytest.mark.parametrize("kind", KINDS)
def test_shard_size_does_not_change_the_events(kind, tmp_path):
    request = {"kind": kind, "events": 2500, "seed": 3}
    manifests = [make_log(tmp_path / str(size), shard_events=size, **request) for size in (1000, 2500)]
    assert [len(manifest.shards) for manifest in manifests] == [3, 1]
    assert manifests[0].log_id == manifests[1].log_id
    small_shards, one_shard = (EventLog(tmp_path / name).read(0, 2500) for name in ("1000", "2500"))
    assert same_events(small_shards, one_shard)


@pytest.mark.parametrize("kind", KINDS)
def test_the_folder_describes_itself(kind, tmp_path):
    told = []
    make_log(tmp_path / "log", kind=kind, events=2000, average_degree=40, seed=5, progress=told.append)
    log = EventLog(tmp_path / "log")
    assert len(list(log.verify())) == 2
    assert sum(told) == len(log) == 2000
    assert log.num_nodes == 100
    assert log.raw_ids()["raw_id"].to_pylist() == list(range(100))
    assert log.raw_ids()["degree"].to_pylist() == degrees(log.read(0, 2000)).tolist()
    wanted = {"command": "synth", "kind": kind, "average_degree": 40.0, "seed": 5}
    assert wanted.items() <= log.manifest.source.items()


def test_the_log_id_tells_apart_whatever_changes_the_events():
    recipes = [
        Recipe(kind=kind, events=events, average_degree=degree, seed=seed)
        for kind in KINDS
        for events in (1000, 1001)
        for degree in (10.0, 20.0)
        for seed in (0, 1)
    ]
    moving = Recipe(kind="social", events=1000, average_degree=10.0, seed=0, habits=SocialHabits(moves=2.0))
    log_ids = {recipe.log_id for recipe in [*recipes, moving]}
    assert len(log_ids) == len(recipes) + 1
    assert all(len(log_id) == 16 for log_id in log_ids)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "tree"},
        {"events": 0},
        {"average_degree": 0.0},
        {"average_degree": float("nan")},
        {"average_degree": 1e-9},
        {"seed": -1},
        {"shard_events": 0},
    ],
)
def test_impossible_requests_are_refused_before_anything_is_written(wrong, tmp_path):
    with refused():
        make_log(tmp_path / "log", **{"kind": "social", "events": 100, **wrong})
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "wrong",
    [
        {"repeat": 0.9},
        {"tail": 1.0},
        {"days": 0},
    ],
)
def test_impossible_habits_are_refused(wrong):
    with refused():
        SocialHabits(**wrong)


# ---- CSV


@pytest.mark.parametrize(("kind", "stem"), [("random", "node"), ("social", "user")])
def test_the_csv_holds_the_events_of_the_folder_under_names(kind, stem, tmp_path):
    write_csv(tmp_path / "new" / "raw.csv", kind=kind, events=1500, average_degree=60, seed=2)
    lines = (tmp_path / "new" / "raw.csv").read_text().splitlines()
    log = draw(kind, 1500, seed=2)
    assert lines[0] == "source,target,timestamp"
    assert lines[1] == f"{stem}-{log.src[0]:06d},{stem}-{log.dst[0]:06d},{log.time[0]}"
    table = pl.read_csv(tmp_path / "new" / "raw.csv")
    assert np.array_equal(table["timestamp"], log.time)
    for column, ids in (("source", log.src), ("target", log.dst)):
        assert np.array_equal(table[column].str.strip_prefix(f"{stem}-").cast(pl.Int32), ids)


def test_an_existing_csv_is_replaced_only_on_request(tmp_path):
    path = tmp_path / "raw.csv"
    path.write_text("mine")
    with refused():
        write_csv(path, kind="social", events=10)
    assert path.read_text() == "mine"
    write_csv(path, kind="social", events=10, overwrite=True)
    assert len(path.read_text().splitlines()) == 11


def test_a_folder_is_no_place_for_a_csv(tmp_path):
    with refused():
        write_csv(tmp_path, kind="social", events=10, overwrite=True)


def test_an_interrupted_csv_leaves_nothing_behind(tmp_path):
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_csv(tmp_path / "raw.csv", kind="random", events=10, progress=interrupt)
    assert not any(tmp_path.iterdir())


# ---- random


def test_random_has_the_promised_nodes_and_uniform_degrees(tmp_path):
    manifest = make_log(tmp_path / "log", kind="random", events=100_000)
    assert manifest.nodes == 2000
    degree = EventLog(tmp_path / "log").raw_ids()["degree"].to_numpy()
    assert degree.mean() == 100
    assert degree.std() == pytest.approx(10, rel=0.1), "a binomial's, so no node is preferred"


def test_random_times_run_at_one_event_per_second_with_ties():
    time = draw("random", 100_000).time
    assert np.diff(time).mean() == pytest.approx(1, rel=0.02)
    assert np.mean(np.diff(time) == 0) == pytest.approx(0.5, abs=0.02)


def test_random_time_goes_on_across_chunks(monkeypatch):
    monkeypatch.setattr(synth_random, "EVENTS_PER_CHUNK", 1000)
    time = draw("random", 2500).time
    assert np.all(np.diff(time) >= 0)
    assert time[-1] - time[0] == pytest.approx(2500, rel=0.15)


# ---- social


def test_social_newcomers_appear_until_the_end():
    log = draw("social", 30_000)
    event = np.arange(len(log))
    first_event = np.full(1000, len(log))
    np.minimum.at(first_event, log.src, event)
    np.minimum.at(first_event, log.dst, event)
    assert np.sum(first_event >= 0.7 * len(log)) > 100
    assert np.sum(first_event >= 0.85 * len(log)) > 50


def test_social_activity_is_heavy_tailed_and_has_a_daily_rhythm():
    log = draw("social", 30_000)
    degree = np.sort(degrees(log))[::-1]
    assert degree[0] > 8 * np.median(degree)
    assert degree[: len(degree) // 20].sum() > 0.15 * degree.sum()
    by_hour = np.bincount((log.time % 86_400) // 3600)
    assert by_hour[11:13].sum() > 4 * (by_hour[0] + by_hour[23])


def test_social_partners_of_old_fade_and_moving_house_hastens_it():
    def share_known_from_the_beginning(moves: float) -> float:
        log = draw("social", 30_000, moves=moves)
        pair = log.src.astype(np.int64) * 1000 + log.dst
        return float(np.isin(pair[-6000:], pair[:6000]).mean())

    assert share_known_from_the_beginning(4.0) < 0.5 * share_known_from_the_beginning(0.0) < 0.05


def test_social_blocks_of_ids_carry_about_equal_degree():
    degree = degrees(draw("social", 200_000))
    for num_blocks in (2, 3, 4, 7, 8):
        blocks = np.array([block.sum() for block in np.array_split(degree, num_blocks)])
        assert blocks.max() < 1.07 * blocks.mean()


class EdgeBank:
    """Has this pair met before?"""

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()

    def score(self, src: int, dst: int, time: int) -> float:
        return float((src, dst) in self.seen)

    def record(self, src: int, dst: int, time: int) -> None:
        self.seen.add((src, dst))


class Popularity:
    """How often was this destination chosen?"""

    def __init__(self) -> None:
        self.times_chosen: Counter[int] = Counter()

    def score(self, src: int, dst: int, time: int) -> float:
        return self.times_chosen[dst]

    def record(self, src: int, dst: int, time: int) -> None:
        self.times_chosen[dst] += 1


class Walks:
    """Time-decayed one-step walks plus a little of the two-step ones: rows of the walk matrix, literally."""

    def __init__(self, two_step: float = 0.01, decay: float = 1e-5) -> None:
        self.two_step, self.decay = two_step, decay
        self.row: defaultdict[int, dict[int, float]] = defaultdict(dict)

    def score(self, src: int, dst: int, time: int) -> float:
        faded, one, other = exp(-self.decay * time), self.row[src], self.row[dst]
        shared = sum(one[middle] * other[middle] for middle in one.keys() & other.keys())
        return one.get(dst, 0.0) * faded + self.two_step * shared * faded**2

    def record(self, src: int, dst: int, time: int) -> None:
        for node, partner in ((src, dst), (dst, src)):
            self.row[node][partner] = self.row[node].get(partner, 0.0) + exp(self.decay * time)


def average_precision(log: EventColumns, scorer) -> float:
    """Last 15 % of events against one random destination each, knowing what is strictly earlier."""
    src, dst, time = log.src.tolist(), log.dst.tolist(), (log.time - log.time[0]).tolist()
    negative = np.random.default_rng(1).choice(np.unique(log.dst), len(log)).tolist()
    first_test = int(0.85 * len(log))
    positives, negatives = [], []
    for now, simultaneous in groupby(range(len(log)), key=time.__getitem__):
        events = list(simultaneous)
        for event in events:
            if event >= first_test:
                positives.append(scorer.score(src[event], dst[event], now))
                negatives.append(scorer.score(src[event], negative[event], now))
        for event in events:
            scorer.record(src[event], dst[event], now)
    truth = np.repeat([1, 0], len(positives))
    return float(average_precision_score(truth, positives + negatives))


def assert_walks_beat_edge_bank_beats_popularity(log: EventColumns) -> None:
    scorers = {"edge bank": EdgeBank(), "walks": Walks(), "one step": Walks(0.0), "popularity": Popularity()}
    ap = {name: average_precision(log, scorer) for name, scorer in scorers.items()}
    print(len(log), {name: round(value, 3) for name, value in ap.items()})
    assert 0.70 < ap["edge bank"] < 0.80
    assert ap["walks"] > ap["edge bank"] + 0.12
    assert ap["walks"] > ap["one step"] + 0.05
    assert ap["popularity"] < ap["edge bank"] - 0.08
    assert ap["popularity"] > 0.53


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("events", [20_000, 50_000])
def test_social_is_learnable_walks_beat_edge_bank_beats_popularity(events, seed):
    assert_walks_beat_edge_bank_beats_popularity(draw("social", events, seed=seed))


@pytest.mark.slow
def test_social_is_learnable_at_a_million_events():
    assert_walks_beat_edge_bank_beats_popularity(draw("social", 1_000_000))
