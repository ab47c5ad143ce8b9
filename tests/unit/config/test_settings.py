"""From a command line to settings: precedence, one name per key, every spelling, and the help."""

import dataclasses
import re
from pathlib import Path

import pytest

from tests.support.sentences import refused
from tpnet_dist.config.keys import config_keys, values_of
from tpnet_dist.config.schema import Config, DataConfig, MemoryConfig
from tpnet_dist.config.toml_files import preset_names, write_config
from tpnet_dist.config.train_args import OWN_KEYS, parse_train


def parsed(*args: object) -> Config:
    return parse_train([str(arg) for arg in args]).config


def an_arg_for(name: str) -> str:
    """Some allowed value that is not the default."""
    key, default = config_keys()[name], values_of(Config())[name]
    if key.choices:
        others = [choice for choice in key.choices if default not in (choice, (choice,))]
        return (others or list(key.choices))[0]
    if key.kind is bool:
        return str(not default)
    if key.kind is float:
        return str(default / 2)
    special = {"training.microbatches": "8", "data.held_out": "5, 9"}
    return special.get(name, "7") if key.kind is int else "some/folder"


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text("[memory]\ndecay = 1e-3\n[training]\nepochs = 5\npatience = 3\n")
    return path


def test_without_data_the_built_in_logs_preset_is_taken() -> None:
    assert parsed() == parsed("--preset", "social")
    assert parsed("--training.epochs", "3") == parsed("--preset", "social", "--training.epochs", "3")


def test_settings_of_a_dataset_want_its_folder() -> None:
    with refused():
        parse_train(["--preset", "uci"])


def test_a_data_folder_alone_gives_the_defaults() -> None:
    settings = parse_train(["data/mine"])
    assert settings.config == Config(data=DataConfig(folder="data/mine"))
    assert (settings.run_dir, settings.check, settings.debug) == (None, False, False)


def test_flags_go_before_the_file_before_the_preset_before_defaults(toml: Path) -> None:
    assert parsed("data", "--preset", "uci").memory.decay == 1e-7
    assert parsed("data", "--preset", "uci", "--config", toml).memory.decay == 1e-3
    config = parsed(
        "data", "--memory.decay", 0, "--training.epochs", 9, "--preset", "can_parl", "--config", toml
    )
    assert (config.memory.decay, config.training.epochs, config.training.patience) == (0, 9, 3)
    assert config.model.sampling == "uniform"
    assert config.training.batch_size == 200


def test_every_field_is_one_key() -> None:
    fields = [
        f"{section.name}.{field.name}"
        for section in dataclasses.fields(Config)
        for field in dataclasses.fields(getattr(Config(), section.name))
    ]
    assert fields == list(config_keys())


@pytest.mark.parametrize("name", config_keys())
def test_a_key_says_the_same_in_every_spelling(name: str, tmp_path: Path) -> None:
    key, arg = config_keys()[name], an_arg_for(name)
    section, leaf = name.split(".")
    value = f'"{arg}"' if key.kind is str else arg.lower()
    path = tmp_path / "one.toml"
    path.write_text(f"[{section}]\n{leaf} = {f'[{value}]' if key.is_list else value}\n")
    from_flag = parsed(f"--{name}", arg)
    assert from_flag != Config() or len(key.choices) == 1
    assert from_flag == parsed(f"--{name.replace('_', '-')}={arg}")
    assert from_flag == parsed(f"{name}={arg}")
    assert from_flag == parsed("--config", path)


@pytest.mark.parametrize(
    "args",
    [
        ["--training.seeds", "0", "1", "2"],
        ["--training.seeds=[0,1,2]"],
        ["training.seeds=[0,1,2]"],
        ["--training.seeds", "[0,", "1,", "2]"],
        ["--training.seeds", "0,1,2", "--check"],
    ],
)
def test_lists_may_be_args_or_brackets(args: list[str]) -> None:
    assert parsed(*args).training.seeds == (0, 1, 2)
    assert parsed("evaluation.negatives=['random', \"inductive\"]").evaluation.negatives == (
        "random",
        "inductive",
    )


def test_one_seed_said_later_replaces_several(tmp_path: Path) -> None:
    path = tmp_path / "several.toml"
    path.write_text("[training]\nseeds = [1, 2]\n")
    assert parsed("--config", path).training.all_seeds() == (1, 2)
    assert parsed("--config", path, "--training.seed", 5).training.all_seeds() == (5,)


def test_one_seed_beside_several_is_taken_where_none_is_dropped(tmp_path: Path) -> None:
    assert parsed("--training.seeds", 1, 2, "--training.seed", 2).training.all_seeds() == (1, 2)
    path = tmp_path / "config.toml"
    write_config(parsed("--training.seeds", 1, 2), path)
    assert "seed = 0" in path.read_text()
    assert parsed("--config", path).training.all_seeds() == (1, 2)


def test_numbers_may_be_written_as_people_do(tmp_path: Path) -> None:
    path = tmp_path / "numbers.toml"
    path.write_text("[training]\nmax_steps = 1e6\n[memory]\ndecay = 0\n")
    config = parsed("--config", path, "--checkpoint.every-steps", "2e3")
    assert (config.training.max_steps, config.checkpoint.every_steps) == (1_000_000, 2000)
    assert type(config.training.max_steps) is int and type(config.memory.decay) is float
    assert parsed("--config", path, "--training.max-steps", "none").training.max_steps is None


def test_the_command_has_flags_of_its_own() -> None:
    settings = parse_train(["data/uci", "--run-dir", "runs/a", "--check", "--debug"])
    assert settings.config.data.folder == "data/uci"
    assert (settings.run_dir, settings.check, settings.debug) == (Path("runs/a"), True, True)
    assert parse_train(["--run-dir", "none"]).run_dir == Path("none")
    assert parse_train(["data.d/share=1"]).config.data.folder == "data.d/share=1"


def test_help_explains_every_flag_and_names_every_preset(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as exit_:
        parse_train(["data/uci", "--help"])
    assert exit_.value.code == 0
    shown = capsys.readouterr().out
    flags = re.findall(r"^[^\w\n-]+--([a-z][a-z._-]+)", shown, flags=re.MULTILINE)
    assert sorted(flag.replace("-", "_") for flag in flags) == sorted([*OWN_KEYS, *config_keys()])
    assert all(re.search(rf"\b{name}\b", shown) for name in preset_names())


@pytest.mark.parametrize("said", ["1e-7,1e-5", "[1e-5,1e-7]", "[1e-5, 1e-7]", "1e-5, 1e-7"])
def test_timescales_are_given_in_any_order_and_kept_from_slow_to_fast(said: str) -> None:
    assert parsed("data", "--memory.decay", said).memory.decay == (1e-7, 1e-5)


@pytest.mark.parametrize(
    ("said", "kept"), [("[1e-5, 1e-7]", (1e-7, 1e-5)), ("[1e-7]", 1e-7), ("1e-7", 1e-7), ("'auto'", "auto")]
)
def test_a_file_gives_a_timescale_several_or_the_word_auto(said: str, kept: object, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"[memory]\ndecay = {said}\n")
    assert parsed("data", "--config", path).memory.decay == kept


def test_the_data_folder_may_come_after_the_timescales() -> None:
    config = parsed("--memory.decay", "1e-7,1e-5", "data")
    assert (config.memory.decay, config.data.folder) == ((1e-7, 1e-5), "data")


def test_a_row_has_layers_for_each_hop_of_each_timescale() -> None:
    assert MemoryConfig(decay=1e-6).layers == 4
    assert MemoryConfig(decay=(1e-7, 1e-5)).layers == MemoryConfig(decay="auto").layers == 7
    assert MemoryConfig(decay="auto", walk="count").layers == 4
