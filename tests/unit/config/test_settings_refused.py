"""Each bad setting gets one sentence, with value, rule and remedy."""

from pathlib import Path

import pytest

from tpnet_dist.config.toml_files import read_config
from tpnet_dist.config.train_args import parse_train
from tpnet_dist.errors import InputError

REFUSED = {
    "--training.batchsize 5": "unknown flag --training.batchsize; did you mean --training.batch_size?",
    "--trainin.epochs=3": "unknown flag --trainin.epochs; did you mean --training.epochs?",
    "training.epoch=3": "unknown flag training.epoch; did you mean --training.epochs?",
    "--epochs 5": "unknown flag --epochs; did you mean --training.epochs?",
    "--chek": "unknown flag --chek; did you mean --check?",
    "-d x": "unknown flag -d; --help lists what there is",
    "--training.epochs many": "training.epochs is 'many', but must be a whole number; "
    "write it like 20 or 1e6",
    "--training.epochs 2.5": "training.epochs is '2.5', but must be a whole number; write it like 20 or 1e6",
    "--training.epochs 1e30": "training.epochs is 1e30, but must be below 2^63; lower it",
    "--training.epochs inf": "training.epochs is 'inf', but must be a whole number; write it like 20 or 1e6",
    "--training.epochs": "--training.epochs has no value; write one after it",
    "--training.epochs --check": "--training.epochs has no value; write one after it",
    "--training.epochs=": "training.epochs is '', but must be a whole number; write it like 20 or 1e6",
    "--training.seeds": "--training.seeds has no value; write one after it",
    "--training.seeds 0 x": "training.seeds holds 'x', but must hold whole numbers; write it like 20 or 1e6",
    "--training.seeds 0 0": "training.seeds is (0, 0), but must be distinct numbers; name each once",
    "--training.seeds 1 2 --training.seed 3": "--training.seed is 3, but --training.seeds 1 2 would replace "
    "it; add 3 to these, or leave one of the two away",
    "--training.seed 0 --training.seeds=[1,2]": "--training.seed is 0, but --training.seeds 1 2 would "
    "replace it; add 0 to these, or leave one of the two away",
    "--training.seed -1": "training.seed is -1, but must be within 0…2147483647; the default, 0, will do",
    "--memory.decay slow": "memory.decay is 'slow', but must be a number; write it like 0.5 or 1e-6",
    "--memory.decay -1e-6": "memory.decay is -1e-06, but must be a finite number of at least 0; "
    "the default, 1e-06, will do",
    "--memory.decay nan": "memory.decay is nan, but must be a finite number of at least 0; "
    "the default, 1e-06, will do",
    "--memory.hops 1000": "memory.hops is 1000, but must be within 1…16; the default, 3, will do",
    "--model.channels 1e9": "model.channels is 1000000000, but must be within 1…65,536; "
    "the default, 172, will do",
    "--model.mixer-layers 1e6": "model.mixer_layers is 1000000, but must be within 1…100; "
    "the default, 2, will do",
    "--evaluation.mrr-negatives 1e9": "evaluation.mrr_negatives is 1000000000, but must be within 0…100,000; "
    "the default, 0, will do",
    "--memory.walk far": "memory.walk is 'far', but must be one of decay, count, transition; "
    "--help explains them",
    "--model.scale maybe": "model.scale is 'maybe', but must be True or False; --help says what it does",
    "--evaluation.negatives random none": "evaluation.negatives holds 'none', but must hold any of random, "
    "historical, inductive; --help explains them",
    "--evaluation.negatives []": "evaluation.negatives is (), but must be at least one kind; "
    "write random, or "
    "leave it away",
    "--memory.width 0": "memory.width is 0, but must be at least 1; leave it away for the default",
    "--data.val-share 0.5 --data.test-share 0.5": "data.val_share + data.test_share is 1.0, but must be "
    "below 1, so that training keeps a share; lower one of them",
    "--data.val-share 1.5": "data.val_share is 1.5, but must be above 0 and below 1; "
    "the default, 0.15, will do",
    "one two": "two: the data folder is one already; give one",
    "--check=yes": "--check=yes: --check takes no value; leave yes away",
    "--preset ucl": "unknown preset ucl; choose one of can_parl, contact, enron, flights, lastfm, mooc, "
    "reddit, social, social_evo, uci, un_trade, un_vote, us_legis, wikipedia",
}

FILES = {
    "[training]\nbatchsize = 5": "unknown key training.batchsize; did you mean training.batch_size?",
    "epochs = 5": "unknown key epochs; did you mean training.epochs?",
    "[trainin]\nepochs = 5": "unknown key trainin.epochs; did you mean training.epochs?",
    "[training.epochs]\nx = 1": "unknown key training.epochs.x; did you mean training.epochs?",
    "[training]\nepochs = 'many'": "training.epochs is 'many', but must be a whole number; "
    "write it like 20 or 1e6",
    "[training]\nepochs = '5'": "training.epochs is '5', but must be a whole number; take the quotes away",
    "[training]\nepochs = true": "training.epochs is True, but must be a whole number; "
    "write it like 20 or 1e6",
    "[training]\nepochs = [5]": "training.epochs is [5], but must be a whole number; write it like 20 or 1e6",
    "[training]\nepochs = 1979-05-27": "training.epochs is 1979-05-27, but must be a whole number; "
    "write it like 20 or 1e6",
    "[training]\nseeds = 5": "training.seeds is 5, but must be a list such as [5]; put it in brackets",
    "[training]\nseeds = [5, true]": "training.seeds holds True, but must hold whole numbers; "
    "write it like 20 or 1e6",
    "[model]\nscale = 'False'": "model.scale is 'False', but must be True or False; take the quotes away",
    "[data]\nfolder = 3": "data.folder is 3, but must be text; put it in quotes",
    "training = 3": "unknown key training; did you mean training.seed?",
    "[training\nepochs = 5": "not valid TOML: Expected ']' at the end of a table declaration "
    "(at line 1, column 10); correct it there",
    "[data]\nfolder = data\n": "not valid TOML: Invalid value (at line 2, column 10); correct it there",
}


def refusal(*args: str) -> str:
    with pytest.raises(InputError) as error:
        parse_train(list(args))
    return str(error.value)


@pytest.mark.parametrize("args", REFUSED)
def test_bad_args_are_refused(args: str) -> None:
    assert refusal(*args.split()) == REFUSED[args]


@pytest.mark.parametrize("content", FILES)
def test_bad_files_are_refused_by_name(content: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    assert refusal("--config", str(path)) == f"{path}: {FILES[content]}"


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
    sentence = refusal("--config", str(path), *args.split())
    assert sentence.startswith(f"{path}: memory.hops is 0, but" if blamed else "memory.hops is 17, but")


def test_of_two_values_that_do_not_go_together_a_file_is_named_if_it_said_both(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    both = "data.val_share + data.test_share is 1.25, but must be below 1"
    path.write_text("[data]\nval_share = 0.5\ntest_share = 0.75\n")
    assert refusal("--config", str(path)).startswith(f"{path}: {both}")
    assert refusal("--config", str(path), "--data.val-share=0.5").startswith(both)


def test_the_settings_of_a_run_are_refused_by_the_name_of_their_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[training]\nseeds = [1, -2]\n")
    with pytest.raises(InputError, match=rf"{path}: training.seeds is -2, but"):
        read_config(path)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    assert refusal("--config", str(missing)) == (
        f"{missing}: No such file or directory; give the path of a TOML file"
    )
    assert refusal("--config", str(tmp_path)) == f"{tmp_path}: Is a directory; give the path of a TOML file"
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'[data]\nfolder = "\xe9"\n')
    assert refusal("--config", str(latin)).startswith(f"{latin}: not valid TOML: 'utf-8' codec")
