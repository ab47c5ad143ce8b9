"""`benchmarks.accuracy` on finished runs: means over seeds, beside the paper's; one sentence for the rest."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import accuracy
from benchmarks.accuracy_rows import accuracies, only
from benchmarks.accuracy_sheets import ablation_sheet, decay_sheet, main_sheet, width_sheet
from benchmarks.finished_runs import read_runs
from benchmarks.model_sheets import average_ranks, models_sheet, ranks_sheet
from benchmarks.paper_ablations import paper_ablation
from benchmarks.variants import (
    PAPER_VARIANTS,
    VARIANTS,
    decay_variant,
    flags_of,
    titles,
    variant_of,
    width_variant,
)
from tests.support.command_line import run_here, sentence_of
from tests.support.shared_folder import shared_folder
from tests.unit.benchmarks.written_runs import write_run
from tpnet_dist.config.paper_values import paper_datasets, paper_models, paper_value
from tpnet_dist.config.train_args import parse_train
from tpnet_dist.models.registry import MODELS

RANDOM_AP = ("transductive", "random", "ap")


def refusal(*args: object, varies: str = "") -> str:
    return sentence_of(run_here(accuracy.main, *args), accuracy.PROGRAM, varies=varies)


@pytest.mark.parametrize("name", [*VARIANTS, *titles().values(), width_variant(128), decay_variant(1e-4)])
def test_a_variant_is_known_again_by_its_settings(name: str) -> None:
    args = ["data/uci", "--preset", "uci"]
    changed = parse_train([*args, *flags_of(name)]).config
    base = parse_train([*args, "--model.name", changed.model.name]).config
    assert variant_of(changed, base) == name


def test_settings_without_a_name_are_told_and_those_that_change_no_model_are_not() -> None:
    base = parse_train(["data/uci", "--preset", "uci"]).config
    args = (
        "elsewhere --preset uci --training.seed 3 --training.epochs 2 --memory.prefetch 0 --checkpoint.keep 1"
    )
    assert variant_of(parse_train(args.split()).config, base) == "TPNet"
    args += " --data.batching timestamps --memory.decay 1e-9"
    told = variant_of(parse_train(args.split()).config, base)
    assert told == "data.batching timestamps, memory.decay 1e-09"


def test_a_change_of_another_model_is_told_with_its_title() -> None:
    args = ["data/uci", "--preset", "uci", "--model.name", "graphmixer"]
    base, changed = (parse_train([*args, *more]).config for more in ([], ["--model.neighbors", "7"]))
    assert variant_of(changed, base) == "GraphMixer, model.neighbors 7"


def test_seeds_of_one_run_and_of_several_make_the_same_figures(tmp_path: Path) -> None:
    together = write_run(tmp_path / "together", {0: 0.90, 1: 0.94})
    apart = [write_run(tmp_path / f"apart-{seed}", {seed: ap}) for seed, ap in ((0, 0.90), (1, 0.94))]
    rows = accuracies(read_runs((together,)))
    assert rows == accuracies(read_runs(tuple(apart)))
    [first] = [
        row for row in rows if (row.setting, row.negatives, row.metric) == ("transductive", "random", "ap")
    ]
    assert first.mean == pytest.approx(0.92, abs=1e-12)
    # of two values: their distance ÷ √2
    assert first.std == pytest.approx(0.04 / 2**0.5, abs=1e-12)
    assert (first.dataset, first.variant, first.seeds, first.epochs) == ("uci", "TPNet", (0, 1), 3)


def test_the_main_table_has_all_six_settings_beside_the_papers(tmp_path: Path) -> None:
    sheet = main_sheet(accuracies(read_runs((write_run(tmp_path / "run", {0: 0.97}),))))
    assert [row[2:4] for row in sheet.rows] == [
        (setting, kind)
        for setting in ("transductive", "inductive")
        for kind in ("random", "historical", "inductive")
    ]
    first = ("0.9700", "0.9735 ± 0.0004", "-0.0035", "0.9600", "0.9679 ± 0.0005", "-0.0079")
    assert sheet.rows[0] == ("UCI", "TPNet", "transductive", "random", *first)


def test_models_and_heuristics_are_columns_each_with_its_own_figure_of_the_paper(tmp_path: Path) -> None:
    heuristics = {"edgebank_best": 0.77, "edgebank_window": 0.5, "recency": 0.8, "popularity": 0.7}
    write_run(tmp_path / "a", {0: 0.96, 1: 0.98}, baselines=heuristics)
    write_run(tmp_path / "b", {0: 0.91}, model="graphmixer")
    rows = accuracies(read_runs((tmp_path,)))
    sheet = models_sheet(rows, "ap")
    assert sheet.headings[3:] == ("TPNet", "GraphMixer", "EdgeBank", "recency", "popularity")
    cells = ("0.9700 ± 0.0141 (0.9735)", "0.9100 (0.9325)", "0.7700 (0.7620)", "0.8000", "0.7000")
    assert sheet.rows[0] == ("UCI", "transductive", "random", *cells)
    assert len(sheet.rows) == 6
    # the paper has no EdgeBank among inductive events, nor recency and popularity at all
    ranks = {row[:2]: row[2:] for row in ranks_sheet(rows, "ap").rows}
    first = ("1.00 (1.00)", "2.00 (2.00)", "3.00 (3.00)")
    assert ranks["transductive", "random"] == ("1", *first, "", "")
    assert ranks["inductive", "random"] == ("1", *first[:2], "", "", "")
    # there the paper's GraphMixer is before its TPNet
    assert ranks["inductive", "inductive"][1:3] == ("1.00 (2.00)", "2.00 (1.00)")


def test_ranks_are_means_over_datasets_and_equals_share_the_better_one() -> None:
    rows = [{"a": 0.9, "b": 0.9, "c": 0.8}, {"a": 0.5, "b": 0.7, "c": 0.6}]
    assert average_ranks(rows) == {"a": 2.0, "b": 1.0, "c": 2.5}


def test_average_ranks_of_the_papers_own_figures_are_those_it_prints() -> None:
    models = paper_models("transductive")
    of_all = [
        {model: value.mean for model in models if (value := paper_value(name, *RANDOM_AP, model=model))}
        for name in paper_datasets()
    ]
    text = (shared_folder() / "paper" / "tpnet.tex").read_text()
    printed = re.findall(r"\d+\.\d+", text.partition("Avg. Rank")[2].partition("\n")[0])
    assert [f"{rank:.2f}" for rank in average_ranks(of_all).values()] == printed


def test_the_presets_own_decay_stands_among_the_others(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {0: 0.97})
    write_run(tmp_path / "b", {0: 0.90}, memory__decay=1e-5)
    rows = accuracies(read_runs((tmp_path,)))
    assert decay_sheet(rows).rows == [
        ("UCI", "1e-07 (the preset's)", "0.9700", "0.9700", "0.8700"),
        ("UCI", "1e-05", "0.9000", "0.9000", "0.8000"),
    ]
    assert len(main_sheet(rows).rows) == 6


def test_ablations_are_told_against_the_whole_and_the_papers_own(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {0: 0.97})
    write_run(tmp_path / "b", {0: 0.90}, memory__enabled=False)
    write_run(tmp_path / "c", {0: 0.80}, memory__walk="count")
    rows = accuracies(read_runs((tmp_path,)))
    assert [row[1:] for row in ablation_sheet(rows).rows] == [
        ("TPNet", "0.9700", "0.9735 ± 0.0004", "", "0.8700"),
        ("without node representations", "0.9000", "0.8870 ± 0.0253", "-0.0700", "0.8000"),
        ("walk counts", "0.8000", "", "-0.1700", "0.7000"),
    ]
    assert len(main_sheet(rows).rows) == 6


def test_widths_are_in_the_order_of_numbers_and_have_no_value_of_the_paper(tmp_path: Path) -> None:
    for width in (16, 2, 128):
        write_run(tmp_path / str(width), {0: 0.9 + width / 2000}, memory__width=width)
    rows = accuracies(read_runs((tmp_path,)))
    assert [row[1] for row in width_sheet(rows).rows] == ["2", "16", "128"]
    assert {row.paper for row in only(rows, "transductive").values()} == {None}


def test_the_command_writes_tables_pictures_and_one_json_line(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", {0: 0.97, 1: 0.96})
    write_run(tmp_path / "runs" / "b", {0: 0.90}, model__scale=False)
    write_run(tmp_path / "runs" / "c", {0: 0.95}, memory__width=8)
    write_run(tmp_path / "runs" / "d", {0: 0.95}, memory__decay=1e-5)
    write_run(tmp_path / "runs" / "e", {0: 0.95}, model="tcl", baselines={"recency": 0.7})
    out = tmp_path / "out"
    done = run_here(accuracy.main, "--runs", tmp_path / "runs", "--out", out)
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    lines = [json.loads(line) for line in (out / "accuracy.jsonl").read_text().splitlines()]
    assert last["benchmark"] == "accuracy"
    assert last["results"]["figures"] == lines
    assert len(lines) == 6 * 12
    assert "| UCI | TPNet | transductive | random | 0.9650 ± 0.0071 |" in (out / "accuracy.md").read_text()
    for name in ("accuracy", "models", "ablations", "widths", "decays"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / f"{name}.svg").read_text()


def test_what_cannot_be_tabulated_gets_one_sentence(tmp_path: Path) -> None:
    first, second = (write_run(tmp_path / name, {0: 0.9}) for name in "ab")
    refusal("--runs", first, second, "--out", tmp_path / "out")
    (second / "results.json").unlink()
    refusal("--runs", second, "--out", tmp_path / "out")
    empty = tmp_path / "empty"
    empty.mkdir()
    refusal("--runs", empty)
    refusal("--runs", first, "--data", "data")
    refusal("--variants", "smaller")
    refusal("--models", "tpnets", varies=", ".join(MODELS))
    refusal("--minutes", 0)
    refusal("--seeds", 1, 1)
    refusal("--epochs", 0)
    assert not (tmp_path / "out").exists()


def test_the_papers_ablations_are_as_it_prints_them() -> None:
    text = (shared_folder() / "paper" / "tpnet.tex").read_text()
    table = text.split("\\end{tabular}}  \\label{tab:inject_way}")[0]
    rows = table.rpartition("\\begin{tabular}")[2].split("\\midrule")[1].split("\\\\")
    printed = {row.split("&")[0].strip(): row.split("&")[2:] for row in rows if "&" in row}
    assert len(printed) == 7
    for name, cells in printed.items():
        for variant, cell in zip(PAPER_VARIANTS[1:], cells, strict=True):
            value = paper_ablation(re.sub(r"\W+", "_", name.lower()).strip("_"), variant)
            figures = re.findall(r"\d+\.\d+", cell)
            told = [f"{100 * number:.2f}" for number in (value.mean, value.std)] if value else []
            assert told == figures
