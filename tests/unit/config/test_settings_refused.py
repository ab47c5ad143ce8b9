"""Each bad setting gets one sentence, with value, rule and remedy."""

from pathlib import Path

import pytest

from tests.support.sentences import refused
from tpnet_dist.config.toml_files import read_config
from tpnet_dist.config.train_args import parse_train

REFUSED = (
    "--training.batchsize 5",
    "--trainin.epochs=3",
    "training.epoch=3",
    "--epochs 5",
    "--chek",
    "-d x",
    "--training.epochs many",
    "--training.epochs 2.5",
    "--training.epochs 1e30",
    "--training.epochs inf",
    "--training.epochs",
    "--training.epochs --check",
    "--training.epochs=",
    "--training.seeds",
    "--training.seeds 0 x",
    "--training.seeds 0 0",
    "--training.seeds 1 2 --training.seed 3",
    "--training.seed 0 --training.seeds=[1,2]",
    "--training.seed -1",
    "--memory.decay slow",
    "--memory.decay -1e-6",
    "--memory.decay nan",
    "--memory.decay []",
    "--memory.decay 1e-7,fast",
    "--memory.decay 1e-7,1e-7",
    "--memory.decay 1e-7,inf",
    "--memory.decay 1e-7,-1e-5",
    "--memory.decay 1,2,3,4,5,6,7,8,9",
    "--memory.decay 1e-7,1e-5 --memory.walk transition",
    "--memory.hops 1000",
    "--model.channels 1e9",
    "--model.mixer-layers 1e6",
    "--evaluation.mrr-negatives 1e9",
    "--memory.walk far",
    "--model.scale maybe",
    "--evaluation.negatives random none",
    "--evaluation.negatives []",
    "--memory.width 0",
    "--data.val-share 0.5 --data.test-share 0.5",
    "--data.val-share 1.5",
    "one two",
    "--check=yes",
    "--preset ucl",
)

FILES = (
    "[training]\nbatchsize = 5",
    "epochs = 5",
    "[trainin]\nepochs = 5",
    "[training.epochs]\nx = 1",
    "[training]\nepochs = 'many'",
    "[training]\nepochs = '5'",
    "[training]\nepochs = true",
    "[training]\nepochs = [5]",
    "[training]\nepochs = 1979-05-27",
    "[training]\nseeds = 5",
    "[memory]\ndecay = 'fast'",
    "[memory]\ndecay = '1e-7'",
    "[memory]\ndecay = [1e-7, true]",
    "[memory]\ndecay = []",
    "[training]\nseeds = [5, true]",
    "[model]\nscale = 'False'",
    "[data]\nfolder = 3",
    "training = 3",
    "[training\nepochs = 5",
    "[data]\nfolder = data\n",
)


def refusal(*args: str) -> str:
    with refused() as error:
        parse_train(list(args))
    return str(error.value)


@pytest.mark.parametrize("args", REFUSED)
def test_bad_args_are_refused(args: str) -> None:
    refusal(*args.split())


@pytest.mark.parametrize("content", FILES)
def test_bad_files_are_refused_by_name(content: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    refusal("--config", str(path))


@pytest.mark.parametrize(
    ("args", "blamed"),
    [
        ("", True),
        ("data --memory.decay 0.5 --preset uci", True),
        ("--memory.hops 17", False),
    ],
)
def test_a_value_its_section_refuses_is_refused_with_the_file_that_said_it(
    args: str, *, blamed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[memory]\nhops = 0\n")
    assert refusal("--config", str(path), *args.split()).startswith(str(path)) == blamed


def test_of_two_values_that_do_not_go_together_a_file_is_named_if_it_said_both(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[data]\nval_share = 0.5\ntest_share = 0.75\n")
    assert refusal("--config", str(path)).startswith(str(path))
    assert not refusal("--config", str(path), "--data.val-share=0.5").startswith(str(path))


def test_the_settings_of_a_run_are_refused_by_the_name_of_their_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[training]\nseeds = [1, -2]\n")
    with refused():
        read_config(path)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    link = tmp_path / "link.toml"
    link.symlink_to(missing.name)
    for path in (missing, link, tmp_path):
        refusal("--config", str(path))
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'[data]\nfolder = "\xe9"\n')
    refusal("--config", str(latin))
