"""Settings on disk: what is written is what is read, and presets come with the package."""

import dataclasses
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpnet_dist.config.keys import config_keys
from tpnet_dist.config.schema import Config, DataConfig, EvaluationConfig, MemoryConfig, TrainingConfig
from tpnet_dist.config.toml_files import preset_names, read_config, write_config
from tpnet_dist.config.train_args import BUILTIN_PRESET, parse_train
from tpnet_dist.models.registry import MODELS

ROOT = Path(__file__).resolve().parents[3]

# the paper's choice of λ, section "Model Configuration"
DECAYS = {
    1e-4: {"contact"},
    1e-5: {"mooc", "can_parl", "un_vote"},
    1e-6: {"wikipedia", "reddit", "enron", "social_evo", "flights", "us_legis"},
    1e-7: {"lastfm", "uci", "un_trade"},
}


@settings(deadline=None)
@given(
    folder=st.text(st.characters(exclude_categories=["Cs"])),
    decay=st.floats(0, allow_infinity=False)
    | st.lists(st.floats(0, allow_infinity=False), min_size=1, max_size=8, unique=True).map(tuple)
    | st.just("auto"),
    share=st.floats(0.01, 0.8),
    width=st.none() | st.integers(1, 2**62),
    seeds=st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=3),
    kinds=st.permutations(["random", "historical", "inductive"]),
    update=st.booleans(),
)
def test_a_written_config_is_read_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, **drawn: Any
) -> None:
    config = Config(
        data=DataConfig(folder=drawn["folder"], val_share=drawn["share"]),
        memory=MemoryConfig(decay=drawn["decay"], width=drawn["width"]),
        training=TrainingConfig(seeds=tuple(drawn["seeds"])),
        evaluation=EvaluationConfig(negatives=tuple(drawn["kinds"]), update=drawn["update"]),
    )
    path = tmp_path_factory.getbasetemp() / "config.toml"
    write_config(config, path)
    assert read_config(path) == config
    assert parse_train(["--config", str(path)]).config == config


def test_a_file_may_begin_with_the_mark_of_editors(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[memory]\nhops = 2\n", encoding="utf-8-sig")
    assert read_config(tmp_path / "mine.toml").memory.hops == 2


def test_a_written_config_holds_every_key_and_nothing_is_left_aside(tmp_path: Path) -> None:
    full = dataclasses.replace(
        Config(),
        memory=MemoryConfig(width=8, borrowed_rows=9, run_batches=4),
        training=TrainingConfig(max_steps=3, microbatches=8),
    )
    write_config(full, tmp_path / "config.toml")
    tree = tomllib.loads((tmp_path / "config.toml").read_text())
    assert [f"{section}.{key}" for section, keys in tree.items() for key in keys] == list(config_keys())
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_presets_are_the_papers_datasets() -> None:
    papers = [name for names in DECAYS.values() for name in names]
    assert preset_names() == sorted([*papers, BUILTIN_PRESET])


@pytest.mark.parametrize("name", sorted(name for names in DECAYS.values() for name in names))
def test_a_preset_has_the_papers_decay_and_sampling(name: str) -> None:
    config = parse_train(["data", "--preset", name]).config
    assert name in DECAYS[config.memory.decay]
    assert config.model.sampling == ("uniform" if name == "can_parl" else "recent")


@pytest.mark.parametrize("model", [model for model in MODELS if model != "tpnet"])
def test_presets_have_settings_for_every_model(model: str) -> None:
    """All thirteen do, and no model has the same on all of them."""
    papers = [name for names in DECAYS.values() for name in names]
    configs = {name: parse_train(["data", "--preset", name, "--model.name", model]).config for name in papers}
    assert all(config.model.name == model for config in configs.values())
    assert len({str(config.model) for config in configs.values()}) > 1


PUBLISHED_SETTINGS: dict[tuple[str, str], dict[str, object]] = {
    ("can_parl", "dygformer"): {"sequence_length": 2048, "patch_size": 64, "dropout": 0.1},
    ("reddit", "dygformer"): {"sequence_length": 64, "patch_size": 2, "dropout": 0.2},
    ("us_legis", "tcl"): {"dropout": 0.3, "sampling": "uniform", "neighbors": 20},
    ("un_trade", "tgat"): {"dropout": 0.1, "sampling": "uniform", "neighbors": 20, "layers": 2},
    ("lastfm", "cawn"): {"neighbors": 128, "dropout": 0.1, "sampling": "time_interval_aware"},
    ("wikipedia", "graphmixer"): {"neighbors": 30, "dropout": 0.5, "sampling": "recent"},
}


@pytest.mark.parametrize(("preset", "model"), PUBLISHED_SETTINGS)
def test_presets_have_the_published_settings(preset: str, model: str) -> None:
    settings = parse_train(["data", "--preset", preset, "--model.name", model]).config.model
    wanted = PUBLISHED_SETTINGS[preset, model]
    assert {name: getattr(settings, name) for name in wanted} == wanted


def test_presets_the_papers_tables_and_the_style_of_reports_are_found_in_an_installed_wheel(
    tmp_path: Path,
) -> None:
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    source = copy_of_the_sources(tmp_path / "source")
    subprocess.run([*build, str(source), "-w", str(tmp_path)], check=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    script = (
        "import launch; from tpnet_dist.config.train_args import BUILTIN_PRESET, parse_train; "
        "from importlib.resources import files; from tpnet_dist.config.paper_values import paper_value; "
        "print(launch.__file__, parse_train(['data', '--preset', 'contact']).config.memory.decay, "
        "paper_value('uci', 'inductive', 'random', 'ap', model='tpnet').mean, "
        "all((files('tpnet_dist.report') / 'templates' / name).is_file() "
        "for name in ('style.css', 'page.html')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == [str(installed / "launch" / "__init__.py"), "0.0001", "0.9574", "True"]


def copy_of_the_sources(folder: Path) -> Path:
    """Only what git knows: a wheel built in the checkout would leave its files there."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        if (ROOT / name).is_file() and name.split("/")[0] not in {"tests", "docs", "benchmarks"}:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder
