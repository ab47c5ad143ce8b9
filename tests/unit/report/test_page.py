"""The page of a run, whatever its folder holds: what it says, and that it is whole and needs nothing else."""

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.page_reader import Page, read_page
from tests.support.report_runs import config_of, figures, metrics_of, results_of, whole_results, write_run
from tests.support.sentences import refused
from tests.support.training_runs import small_log
from tpnet_dist.config.schema import MemoryConfig
from tpnet_dist.files.stored_json import sealed
from tpnet_dist.models.graphmixer.config import GraphMixerConfig
from tpnet_dist.report.page import page, read_runs

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def page_of(*folders: Path) -> Page:
    path = folders[0].parent / "page.html"
    path.write_text(page(read_runs(folders), NOW), encoding="utf-8")
    return read_page(path)


def test_a_finished_run_shows_its_figures_beside_the_papers_and_edgebanks(tmp_path: Path) -> None:
    results = results_of(0.9713, baselines={"edgebank_unlimited": {"test": figures(0.7651)}})
    shown = page_of(write_run(tmp_path / "run", results=results, metrics=metrics_of())).text
    for text in ("0.9713", "paper 0.9735 ± 0.0004", "−0.0022", "0.7651", "124 events/s", "1.50 GiB"):
        assert text in shown
    assert "Recognised as the paper's UCI by the name of its data folder, data/nowhere/uci" in shown
    assert "whether it is the paper's UCI to the event is not known here" in shown


def test_models_stand_beside_one_another_each_with_its_own_figures_of_the_paper(tmp_path: Path) -> None:
    configs = (config_of(), replace(config_of(), model=GraphMixerConfig()))
    runs = [
        write_run(tmp_path / name, each, results_of(0.9)) for name, each in zip("ab", configs, strict=True)
    ]
    shown = page_of(*runs)
    assert {"a (TPNet)", "b (GraphMixer)"} <= set(shown.texts)
    for text in ("its column is TPNet", "its column is GraphMixer", "paper 0.9735", "paper 0.9325"):
        assert text in shown.text
    marks = {each.get("title") or "" for each in shown.all("polygon")} | set(shown.texts)
    assert {"the paper's TPNet: 0.9735 ± 0.0004", "the paper's GraphMixer: 0.9325 ± 0.0057"} <= marks


def test_each_figure_has_a_title_named_axes_and_words_for_those_who_do_not_see_it(tmp_path: Path) -> None:
    shown = page_of(write_run(tmp_path / "run", results=results_of(0.9), metrics=metrics_of()))
    assert len(shown.all("figure")) == 6
    described = [each.get("aria-label") for each in shown.all("svg") if each.get("role") == "img"]
    assert len(described) == 6
    assert all(described)
    for axis in ("optimizer step", "binary cross-entropy", "epoch", "AUC, mean over batches", "seconds"):
        assert axis in shown.texts


def test_a_run_on_unknown_data_has_no_column_of_the_paper(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", config_of("data/mine"), results_of(0.9), metrics_of())
    shown = page_of(folder).text
    assert "paper 0." not in shown
    assert "vs paper" not in shown
    assert "its data folder data/mine cannot be read from here" in shown


def test_a_log_that_is_at_hand_is_described_and_held_against_the_papers(tmp_path: Path) -> None:
    log = small_log(tmp_path / "uci", events=300)
    shown = page_of(write_run(tmp_path / "run", config_of(str(log)), results_of(0.9), metrics_of())).text
    assert "events 300 nodes" in shown
    assert "But it has 300 events where the paper has 59,835." in shown


@pytest.mark.parametrize("metrics", [None, [], metrics_of()[:2], metrics_of()[:7]])
def test_a_run_without_results_yet_says_how_far_it_is(tmp_path: Path, metrics: list | None) -> None:
    shown = page_of(write_run(tmp_path / "run", metrics=metrics)).text
    steps = sum(line["kind"] == "step" for line in metrics or [])
    assert "This run has no results yet" in shown
    assert (f"at step {steps}, with {len(metrics or []) // 5} of at most 3 epochs" in shown) == (steps > 0)
    assert "Settings" in shown


def test_a_finished_run_whose_metrics_are_gone_shows_its_figures_all_the_same(tmp_path: Path) -> None:
    shown = page_of(write_run(tmp_path / "run", results=results_of(0.9), metrics=[])).text
    assert "metrics.jsonl holds nothing, so there are no curves." in shown
    assert "0.9000" in shown


def test_memory_is_told_rank_by_rank_where_the_run_did(tmp_path: Path) -> None:
    shown = page_of(write_run(tmp_path / "run", results=results_of(0.9), metrics=metrics_of())).text
    assert "ranks 2 on CPU cores" in shown
    assert "peak memory, by rank 1.50 GiB · 1 GiB" in shown
    earlier = {name: value for name, value in results_of(0.9).items() if not name.endswith("by_rank")}
    shown = page_of(write_run(tmp_path / "earlier", results=earlier, metrics=metrics_of())).text
    assert "peak memory, largest rank 1.50 GiB" in shown
    assert "by rank" not in shown


def test_rows_between_ranks_are_told_where_there_were_any(tmp_path: Path) -> None:
    lines = metrics_of()
    for line, held in zip([line for line in lines if line["kind"] == "eval"][:2], (0.25, 0.75), strict=True):
        line["exchange"] = {"bytes_per_event": 4096 * held, "remote_rows_held": held}
    shown = page_of(write_run(tmp_path / "two", results=results_of(0.9), metrics=lines)).text
    assert "rows between ranks, in training 2 KiB per event; 50% of other ranks' rows were held" in shown
    shown = page_of(write_run(tmp_path / "one", results=results_of(0.9), metrics=metrics_of())).text
    assert "rows between ranks" not in shown


def test_what_was_not_evaluated_is_named_with_the_command_that_does_it(tmp_path: Path) -> None:
    results = results_of(0.9)
    results["test"] = {"transductive": {"random": {"ap": 0.9, "auc": 0.9}}}
    run = write_run(tmp_path / "a run", results=results)
    shown = page_of(run).text
    assert "Not evaluated: historical negatives, inductive negatives, EdgeBank." in shown
    asked = "--negatives random historical inductive --baseline edgebank --save"
    assert f"python -m tpnet_dist.evaluate '{run}' {asked}" in shown
    whole = results_of(0.9, baselines={"edgebank_unlimited": {"test": figures(0.7)}})
    assert "Not evaluated" not in page_of(write_run(tmp_path / "whole", results=whole)).text
    assert "Not evaluated" not in page_of(write_run(tmp_path / "young", metrics=metrics_of())).text


def test_the_command_for_what_is_missing_keeps_what_is_there(tmp_path: Path) -> None:
    config = config_of()
    config = replace(config, evaluation=replace(config.evaluation, mrr_negatives=100))
    shown = page_of(write_run(tmp_path / "ranked", config, results_of(0.9))).text
    assert "--mrr-negatives 100 --negatives random historical inductive" in shown


def test_figures_of_a_later_evaluation_stand_beside_the_runs_own(tmp_path: Path) -> None:
    results = results_of(0.9)
    results["test"] = {"transductive": {"random": {"ap": 0.9, "auc": 0.9}}}
    run = write_run(tmp_path / "run", results=results)
    later = results_of(0.8, baselines={"edgebank_unlimited": {"test": figures(0.6543)}}, mrr_negatives=50)
    later["test"]["transductive"]["random"] |= {"mrr": 0.4321}
    later["events_per_second"] = {"score": 999.0}
    (run / "evaluation.json").write_text(json.dumps(sealed(whole_results(later, config_of()))))
    shown = page_of(run).text
    # random as trained, historical and the baseline as evaluated
    for text in (
        "Transductive events random 0.9000",
        "historical 0.7000",
        "0.6543",
        "0.4321",
        "among 50 random destinations",
    ):
        assert text in shown
    assert "scoring, all ranks 367 events/s" in shown
    (run / "evaluation.json").write_text("{")
    with refused():
        page_of(run)


def test_each_seed_gets_the_figures_of_its_own_later_evaluation(tmp_path: Path) -> None:
    own = {**results_of(0.9), "test": {"transductive": {"random": {"ap": 0.9, "auc": 0.9}}}}
    run = write_run(tmp_path / "run", config_of(seeds=(0, 1)), {**own, "seeds": {"0": own, "1": own}})
    later = {str(seed): results_of(ap) for seed, ap in ((0, 0.90), (1, 0.92))}
    evaluated = {**results_of(0.91), "seeds": later}
    (run / "evaluation.json").write_text(json.dumps(sealed(whole_results(evaluated, config_of()))))
    shown = page_of(run).text
    assert "random 0.9000 ±0.0000" in shown
    assert "historical 0.8100 ±0.0141" in shown


def test_ranks_of_events_are_shown_where_events_were_ranked(tmp_path: Path) -> None:
    results = results_of(0.9)
    ranked = {"mrr": 0.8091, "hits@1": 0.7598, "hits@3": 0.8362, "hits@10": 0.8941}
    results["test"] = {"transductive": {"random": {"ap": 0.9, "auc": 0.9, **ranked}}}
    config = config_of()
    config = replace(config, evaluation=replace(config.evaluation, mrr_negatives=100))
    shown = page_of(write_run(tmp_path / "run", config, results)).text
    assert "Rank of an event among 100 random destinations" in shown
    assert "0.8091 0.7598 0.8362 0.8941" in shown
    assert "no such events" in shown


def test_several_seeds_have_a_mean_a_deviation_and_a_line_each(tmp_path: Path) -> None:
    by_seed = {str(seed): results_of(ap) for seed, ap in ((0, 0.90), (1, 0.92))}
    results = {**results_of(0.91), "seeds": by_seed, "standard_deviation": results_of(0.01)}
    metrics = [*metrics_of(seed=0), *metrics_of(seed=1)]
    shown = page_of(write_run(tmp_path / "run", config_of(seeds=(0, 1)), results, metrics)).text
    assert "0.9100 ±0.0141" in shown
    assert "One line for each of 2 seeds." in shown


def test_what_a_later_release_stores_is_shown_under_its_name(tmp_path: Path) -> None:
    results = results_of(0.9, network={"bytes_received": 123456})
    assert "network, bytes received 123456" in page_of(write_run(tmp_path / "run", results=results)).text


def test_phases_of_a_traced_run_are_shown_by_rank(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", results=results_of(0.9))
    (run / "profile").mkdir()
    for rank in (0, 1):
        with gzip.open(run / "profile" / f"rank-{rank}.json.gz", "wt") as file:
            json.dump({"traceEvents": trace_of(milliseconds=10 + rank)}, file)
    (run / "profile" / "rank-2.json.gz").write_bytes(b"no trace")
    shown = page_of(run).text
    assert "Traced over 2 steps" in shown
    assert "scoring 10.00 11.00" in shown
    assert "--profile" not in shown
    assert (
        "training with --profile 40 does so"
        in page_of(write_run(tmp_path / "b", results=results_of(0.9))).text
    )
    assert "idle: what of a step is in no phase 3.00 3.00" in shown


def trace_of(milliseconds: float) -> list[dict[str, object]]:
    """Two steps in which the model scores, then does nothing for 3 ms."""
    spans = [
        {"cat": "user_annotation", "name": name, "dur": 1e3 * duration}
        for step in (5, 6)
        for name, duration in ((f"ProfilerStep#{step}", milliseconds + 3), ("score", milliseconds))
    ]
    return [{"ph": "M", "name": "process_name"}, *spans, {"cat": "cpu_op", "name": "score", "dur": 7}]


def test_a_memory_that_holds_nothing_but_simultaneous_events_is_told(tmp_path: Path) -> None:
    config = replace(config_of("data/can_parl"), memory=MemoryConfig(decay=1e-5))
    assert "a year fades to e^−315" in page_of(write_run(tmp_path / "run", config)).text
    slow = replace(config, memory=MemoryConfig(decay=1e-9))
    assert "fades" not in page_of(write_run(tmp_path / "slow", slow)).text


def test_runs_are_compared_with_what_differs_in_their_settings(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / str(rate), config_of(learning_rate=rate), results_of(0.9 + rate), metrics_of())
        for rate in (1e-4, 1e-3)
    ]
    shown = page_of(*runs, write_run(tmp_path / "young", metrics=[]))
    assert "random 0.9001 0.9010 –" in shown.text
    assert "training.learning_rate 0.0001 0.001" in shown.text
    assert {"comparison", "run-1", "run-2", "run-3"} <= set(shown.values("id"))
    # headings never skip a level
    levels = [int(tag[1]) for tag, _ in shown.tags if tag in {"h1", "h2", "h3", "h4"}]
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))


def test_a_seed_without_results_is_named_apart_and_makes_no_mean(tmp_path: Path) -> None:
    done = write_run(tmp_path / "done", results=results_of(0.9), metrics=metrics_of())
    young = write_run(tmp_path / "young", config_of(seeds=(1,)), metrics=metrics_of(seed=1))
    shown = page_of(done, young)
    assert "seeds 0; 1 unfinished" in shown.text
    assert "are taken together: mean" not in shown.text


def test_runs_of_one_name_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / place / "run", results=results_of(0.9)) for place in "ab"]
    shown = page_of(*runs).text
    assert all(str(run) in shown for run in runs)


def test_names_cannot_become_markup(tmp_path: Path) -> None:
    folder = "data/<script>alert(1)</script>&amp;"
    run = write_run(tmp_path / '"><b>run', config_of(folder), results_of(0.9), metrics_of())
    shown = page_of(run, write_run(tmp_path / "other", results=results_of(0.9)))
    assert folder in shown.text
    assert '"><b>run' in shown.text
