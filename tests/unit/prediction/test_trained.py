"""What was trained is opened wherever it lies, and nothing of it is ever run."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from tests.support.event_logs import random_log, write_log
from tests.support.predictors import step_of, untrained_run
from tests.support.sentences import refused
from tests.support.tampered_checkpoints import Evil, change_manifest, forge
from tests.support.training_runs import small_config
from tpnet_dist import Predictor
from tpnet_dist.config.schema import Config
from tpnet_dist.events.reader import EventLog
from tpnet_dist.models.registry import spec_of
from tpnet_dist.models.tpnet.published_names import RANDOM_FEATURES, to_published
from tpnet_dist.training.run_folder import RunFolder
from tpnet_dist.training.weights_file import read_state

NODES, WIDE = 12, 16


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("trained") / "log"
    random_log(folder, 150, NODES)
    return small_config(folder)


@pytest.fixture(scope="module")
def run(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_run(config, tmp_path_factory.mktemp("runs") / "run")


def best_of(run: Path) -> Path:
    return run / "checkpoints" / "seed-0" / "best.pt"


def changed_best(run: Path, path: Path, **changes: Any) -> Path:
    torch.save({**read_state(best_of(run)), **changes}, path)
    return path


def scores_of(predictor: Predictor) -> list[float]:
    return predictor.score(np.zeros(NODES, int), np.arange(NODES), predictor.now + 1).tolist()


def test_a_run_and_its_best_weights_are_the_same(run: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "copied.pt"
    elsewhere.write_bytes(best_of(run).read_bytes())
    assert scores_of(Predictor.load(elsewhere)) == scores_of(Predictor.load(str(run)))


def test_rows_start_from_the_random_features_of_the_weights_epoch(run: Path, tmp_path: Path) -> None:
    other = Predictor.load(changed_best(run, tmp_path / "other.pt", epoch=0))
    assert scores_of(other) != scores_of(Predictor.load(run))


def test_another_log_than_that_of_the_checkpoint_is_refused(run: Path, tmp_path: Path) -> None:
    with refused():
        Predictor.load(changed_best(run, tmp_path / "other.pt", log_id="other"))


def test_a_data_folder_that_is_not_there_is_named_in_full_beside_the_run(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(config.data.folder)
    monkeypatch.chdir(folder.parent)
    run = untrained_run(small_config(Path(folder.name)), tmp_path / "run")
    assert np.isfinite(scores_of(Predictor.load(run))).all()
    monkeypatch.chdir(tmp_path)
    for name in (Path("run"), best_of(run)):
        with refused() as error:
            Predictor.load(name)
        assert str(error.value).startswith(f"{name}: its data folder {tmp_path / folder.name} ")
    assert np.isfinite(scores_of(Predictor.load("run", data=folder))).all()


def test_a_run_without_a_finished_epoch_is_to_be_trained_further(config: Config, tmp_path: Path) -> None:
    RunFolder.start(tmp_path / "run", config)
    with refused():
        Predictor.load(tmp_path / "run")


def test_settings_under_names_of_before_are_read(run: Path, config: Config, tmp_path: Path) -> None:
    said = dict(read_state(best_of(run))["config"])
    said["memory.cache_rows"] = said.pop("memory.borrowed_rows")
    said["training.portions"] = said.pop("training.microbatches")
    # not in a run's folder, whose config.toml would count
    older = changed_best(run, tmp_path / "older.pt", config=said)
    assert scores_of(Predictor.load(older)) == scores_of(Predictor.load(run))


def test_other_formats_and_settings_are_refused(run: Path, config: Config, tmp_path: Path) -> None:
    with refused():
        Predictor.load(changed_best(run, tmp_path / "later.pt", format=7))
    with refused():
        Predictor.load(changed_best(run, tmp_path / "strange.pt", config={"model.soul": 1}))
    with refused():
        torch.save({"model": {}}, tmp_path / "bare.pt")
        Predictor.load(tmp_path / "bare.pt")


SAID: list[dict[str, Any]] = [
    {"config": 7},
    {"config": {"memory.hops": "x"}},
    {"config": {"memory.decay": None}},
    {"config": {"training.seeds": 3}},
    {"epoch": "a"},
    {"seed": -1},
    {"epoch": None},
    {"calibration": {"slope": torch.zeros(2), "offset": 0.0, "events": 1}},
    {"predictor": []},
    {"predictor": {}},
]


@pytest.mark.parametrize("said", SAID, ids=str)
def test_a_checkpoint_that_says_something_else_than_we_write_is_refused(
    run: Path, tmp_path: Path, said: dict[str, Any]
) -> None:
    with refused() as error:
        Predictor.load(changed_best(run, tmp_path / "other.pt", **said))
    assert "\n" not in str(error.value)


SEEN: list[dict[str, Any]] = [
    {"until": "all"},
    {"sizes": ["a"]},
    {"src": torch.zeros(1, dtype=torch.int64)},
    {"newcomers": [["up", 5]]},
    {"src": torch.tensor([99, 0])},
    {"time": torch.tensor([1, 2])},
    {"features": torch.zeros(2, 3)},
    {"projection": torch.zeros(3)},
    {"projection": torch.zeros(99, 3)},
]


@pytest.mark.parametrize("seen", SEEN, ids=str)
def test_a_saved_predictor_that_was_changed_is_refused(
    run: Path, config: Config, tmp_path: Path, seen: dict[str, Any]
) -> None:
    predictor = Predictor.load(run)
    predictor.observe([1, 2], [3, 4], predictor.now + 1)
    predictor.save(tmp_path / "now.pt")
    state = read_state(tmp_path / "now.pt")
    torch.save({**state, "predictor": {**state["predictor"], **seen}}, tmp_path / "now.pt")
    with refused():
        Predictor.load(tmp_path / "now.pt")


@pytest.mark.parametrize("said", [{}, {"progress": {"epoch": "a"}}, {"progress": {"soul": 1}}])
def test_a_folder_that_does_not_say_how_far_it_had_come_is_refused(
    config: Config, tmp_path: Path, said: dict[str, object]
) -> None:
    step = step_of(config, tmp_path / "step-00000007")
    change_manifest(step, lambda manifest: (manifest.pop("progress"), manifest.update(said)))
    with refused():
        Predictor.load(step)


# ---- checkpoints of the released code ----------------------------------------------------------------------


def published_state(config: Config) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model = spec_of(config).make(config, EventLog(config.data.folder).shape)
    return to_published(model, node_width=WIDE, edge_width=WIDE)


def test_a_released_checkpoint_gives_the_scores_of_the_same_weights_of_ours(
    run: Path, config: Config, tmp_path: Path
) -> None:
    torch.save(published_state(config), tmp_path / "theirs.pkl")
    settings = Config(memory=config.memory, evaluation=config.evaluation)
    theirs = Predictor.load(tmp_path / "theirs.pkl", data=config.data.folder, config=settings)
    ours = Predictor.load(changed_best(run, tmp_path / "ours.pt", epoch=0))
    np.testing.assert_allclose(scores_of(theirs), scores_of(ours), rtol=0, atol=1e-6)


def test_random_features_of_a_released_checkpoint_are_taken_by_raw_id(config: Config, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    order = draw.permutation(NODES)
    src, dst = draw.integers(0, NODES, (2, 150))
    features = torch.from_numpy(draw.standard_normal((NODES + 1, 8)).astype(np.float32))
    state, path = {**published_state(config), RANDOM_FEATURES: features}, tmp_path / "theirs.pkl"
    torch.save(state, path)
    scores = []
    for number, dense in enumerate((np.arange(NODES), order)):
        raw = np.empty(NODES, np.int64)
        raw[dense] = np.arange(1, NODES + 1)
        write_log(
            tmp_path / str(number), dense[src], dense[dst], range(150), raw_ids=pa.table({"raw_id": raw})
        )
        predictor = Predictor.load(path, data=tmp_path / str(number))
        scores.append(predictor.score(np.full(NODES, 1), np.arange(1, NODES + 1), 200))
    np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=1e-5)
    torch.save(published_state(config), path)
    drawn = Predictor.load(path, data=tmp_path / "0")
    assert np.abs(drawn.score(np.full(NODES, 1), np.arange(1, NODES + 1), 200) - scores[0]).max() > 1e-4


def test_a_released_checkpoint_needs_its_data(config: Config, tmp_path: Path) -> None:
    torch.save(published_state(config), tmp_path / "theirs.pkl")
    with refused():
        Predictor.load(tmp_path / "theirs.pkl")


@pytest.mark.parametrize("wrong", [{"0.time_encoder.w.bias": 7}, {"soul": torch.zeros(1)}])
def test_what_is_no_released_checkpoint_is_named_once(
    config: Config, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    torch.save(published_state(config) | wrong, tmp_path / "theirs.pkl")
    with refused() as error:
        Predictor.load(tmp_path / "theirs.pkl", data=config.data.folder)
    assert str(error.value).count("theirs.pkl") == 1


@pytest.mark.parametrize("as_plain_pickle", [True, False])
@pytest.mark.parametrize("place", ["alone", "among weights", "in ours"])
def test_a_pickle_that_would_run_code_is_refused_and_not_run(
    run: Path, config: Config, tmp_path: Path, place: str, as_plain_pickle: bool
) -> None:
    evil: Any = Evil(tmp_path / "mark")
    if place == "among weights":
        evil = {**published_state(config), "0.time_encoder.w.bias": evil}
    elif place == "in ours":
        evil = {**read_state(best_of(run)), "config": evil}
    path = tmp_path / "evil.pkl"
    if as_plain_pickle:
        path.write_bytes(pickle.dumps(evil))
    else:
        torch.save(evil, path)
    with refused():
        Predictor.load(path, data=config.data.folder)
    assert not (tmp_path / "mark").exists()


def test_a_folder_that_would_run_code_is_refused_and_not_run(config: Config, tmp_path: Path) -> None:
    step = step_of(config, tmp_path / "step-00000007")
    assert np.isfinite(scores_of(Predictor.load(step))).all()
    forge(step, Evil(tmp_path / "mark"))
    with refused():
        Predictor.load(step)
    assert not (tmp_path / "mark").exists()


def test_settings_and_seeds_that_would_be_ignored_are_refused(run: Path, config: Config) -> None:
    with refused():
        Predictor.load(run, config=config)
    with refused():
        Predictor.load(best_of(run), seed=3)


def test_before_the_first_event_of_a_log_with_features_links_can_be_scored(tmp_path: Path) -> None:
    random_log(tmp_path / "log", 150, NODES)
    log = EventLog(tmp_path / "log")
    wide = write_log(
        tmp_path / "wide",
        *(log.read(0, 150).src, log.read(0, 150).dst, log.read(0, 150).time),
        num_nodes=NODES,
        edge_features=np.ones((150, 3), np.float32),
    )
    run = untrained_run(small_config(Path(wide.folder)), tmp_path / "run")
    assert np.isfinite(scores_of(Predictor.load(run, until=0))).all()
