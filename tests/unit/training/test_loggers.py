"""`--log`: what is written elsewhere is what metrics.jsonl holds, and what fails elsewhere ends nothing."""

import csv
from pathlib import Path

import pytest

from tests.support.sentences import refused
from tpnet_dist.training import loggers
from tpnet_dist.training.loggers import CSV_NAME, Logger, open_logger, require_installed
from tpnet_dist.training.run_log import RunLog

SETTINGS = {"memory.width": None, "training.seeds": (0, 1)}


def write(run: Path, name: str, said: list[str], *, after_step: int = 0, last_step: int = 3) -> None:
    log = RunLog(run, loggers=[name], settings=SETTINGS, say=said.append)
    log.start_seed(0, after_step=after_step, after_epoch=0)
    for step in range(after_step + 1, last_step + 1):
        log.write("step", step, {"seed": 0, "epoch": 1, "loss": 1 / step})
    val = {"transductive": {"random": {"ap": 0.75, "hits@10": 0.5}}}
    log.write("eval", last_step, {"seed": 0, "epoch": 1, "train_loss": 0.5, "val": val})
    log.close()


def test_the_table_is_what_the_lines_say_also_when_a_run_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    write(tmp_path, "csv", said)
    write(tmp_path, "csv", said, after_step=2, last_step=4)
    rows = list(csv.DictReader((tmp_path / CSV_NAME).open()))
    losses = [(int(row["step"]), float(row["value"])) for row in rows if row["name"] == "loss"]
    assert losses == [(step, 1 / step) for step in range(1, 5)]
    [ap] = [row for row in rows if row["name"] == "val/transductive/random/ap"]
    assert (ap["seed"], ap["epoch"], ap["kind"], ap["value"]) == ("0", "1", "eval", "0.75")
    assert said == []


def test_a_service_that_fails_is_said_once_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Logger):
        def __init__(self, *given: object) -> None: ...

        def write(self, *given: object) -> None:
            raise ConnectionError("no network,\nnowhere")

    monkeypatch.setattr(loggers, "WandbLogger", Failing)
    said: list[str] = []
    write(tmp_path, "wandb", said)
    assert said == ["warning: --log wandb is left out from here on: ConnectionError: no network, nowhere"]
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 4


def test_a_package_that_is_not_there_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loggers, "find_spec", lambda name: None)
    require_installed(["csv"])
    with refused():
        require_installed(["csv", "wandb"])


def test_wandb_offline_keeps_everything_in_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    said: list[str] = []
    write(tmp_path, "wandb", said)
    assert said == []
    assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))


def test_mlflow_without_a_server_keeps_everything_in_the_run_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    said: list[str] = []
    write(tmp_path, "mlflow", said)
    write(tmp_path, "mlflow", said, after_step=2, last_step=5)
    assert said == []
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlflow").as_uri())
    experiment = client.get_experiment_by_name("tpnet_dist")
    [run] = client.search_runs([experiment.experiment_id])
    assert run.data.params["training.seeds"] == "(0, 1)"
    assert run.data.metrics["step/loss"] == pytest.approx(1 / 5)
    assert run.data.metrics["eval/val/transductive/random/hits_at_10"] == 0.5
    assert run.info.status == "FINISHED"


def test_each_name_has_a_logger(tmp_path: Path) -> None:
    logger = open_logger("csv", tmp_path, 3, {}, print)
    logger.write("step", 1, 1, {"loss": 0.5})
    logger.close()
    assert (tmp_path / CSV_NAME).read_text().splitlines() == [
        "seed,epoch,step,kind,name,value",
        "3,1,1,step,loss,0.5",
    ]
