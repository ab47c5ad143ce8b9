"""The table of results: every figure in its place and uncut, gaps where there is none."""

import io
from typing import Any

import pytest
from rich.console import Console

from tests.support.report_runs import whole_results
from tpnet_dist.config.schema import Config
from tpnet_dist.evaluation.results import Results, results_from_json
from tpnet_dist.evaluation.results_table import print_results

KINDS = ("random", "historical", "inductive")
CONDITIONS = {"batching": "events", "protocol": "dyglib", "update": True, "ranks": 1}
METRICS = ("ap", "auc", "ap_whole", "auc_whole", "mrr", "hits@10")


def printed(results: dict[str, Any], width: int) -> str:
    out = io.StringIO()
    print_results(results_of(results), Console(file=out, width=width))
    return out.getvalue()


def results_of(results: dict[str, Any]) -> Results:
    return results_from_json(whole_results({**CONDITIONS, "val": {}, **results}, Config()))


def full(metrics: tuple[str, ...] = METRICS, *, seeds: int = 1) -> dict[str, Any]:
    """Every figure is another number, and so is its deviation."""
    places = [(setting, kind) for setting in ("transductive", "inductive") for kind in KINDS]

    def numbered(start: float, names: tuple[str, ...], growth: float = 1.0) -> dict[str, Any]:
        figures: dict[str, Any] = {"transductive": {}, "inductive": {}}
        for row, (setting, kind) in enumerate(places):
            figures[setting][kind] = {
                name: start + growth * (row / 100 + place / 1000) for place, name in enumerate(names)
            }
        return figures

    banks = ("edgebank_unlimited", "edgebank_window")
    by_seed = {
        str(seed): {"val": {}, "test": numbered(0.5 + seed / 10, metrics, 1 + seed)} for seed in range(seeds)
    }
    return {
        "test": numbered(0.5, metrics),
        "seeds": by_seed,
        "baselines": {
            bank: {"test": numbered(0.8 + place / 10, ("ap",))} for place, bank in enumerate(banks)
        },
    }


def numbers_in(figures: dict[str, Any]) -> set[str]:
    return {
        f"{number:.4f}"
        for by_kind in figures.values()
        for metrics in by_kind.values()
        for number in metrics.values()
    }


def test_random_competitors_without_edge_bank_figures_leave_a_gap() -> None:
    results = {
        "test": {"transductive": {"historical": {"ap": 0.75}, "random": {"mrr": 0.5}}},
        "baselines": {"edgebank_unlimited": {"test": {"transductive": {"historical": {"ap": 0.25}}}}},
    }
    assert all(figure in printed(results, 100) for figure in ("0.7500", "0.5000", "0.2500"))


@pytest.mark.parametrize("width", [40, 80, 81, 100, 120, 200])
@pytest.mark.parametrize("metrics", [METRICS, METRICS[:4]])
@pytest.mark.parametrize("seeds", [1, 2])
def test_no_figure_and_no_name_is_cut(width: int, metrics: tuple[str, ...], seeds: int) -> None:
    results = full(metrics, seeds=seeds)
    out = printed(results, width)
    assert "…" not in out
    assert all(word in out for word in ("transductive", "historical", "inductive"))
    whole = results_of(results)
    wanted = numbers_in(whole.mean.test)
    for bank in whole.baselines.values():
        wanted |= numbers_in(bank["test"])
    if whole.deviation is not None:
        wanted |= {f"±{number}" for number in numbers_in(whole.deviation.test)}
    assert len(wanted) >= 12 * len(metrics) * (seeds - 1)
    assert all(number in out for number in wanted)


@pytest.mark.parametrize("seeds", [1, 2])
def test_no_line_is_longer_than_80_columns_allow(seeds: int) -> None:
    assert max(map(len, printed(full(seeds=seeds), 80).splitlines())) <= 80


def test_what_does_not_fit_comes_in_a_second_table_with_its_rows_named() -> None:
    assert printed(full(), 80).count("transductive random") == 1
    two = printed(full(seeds=2), 80)
    assert two.count("transductive random") == 2
    assert two.index("AUC") < two.index("MRR") and two.count("Test events") == 1
    assert printed(full(seeds=2), 200).count("transductive random") == 1


def test_a_console_too_narrow_for_anything_gets_no_table_without_figures() -> None:
    results = full(METRICS[:4], seeds=2)
    del results["baselines"]
    assert printed(results, 40).count("transductive random") == 1


def test_the_title_says_when_the_memory_stood_still() -> None:
    shown = " ".join(printed({**full(), "update": False}, 200).split())
    assert "protocol, memory still after training)" in shown
    assert "memory still" not in printed({**full(), "update": True}, 200)
    assert "memory still" not in printed(full(), 200)
