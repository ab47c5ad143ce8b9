"""The table of results: every figure in its place, gaps where there is none."""

import io

from rich.console import Console

from tpnet_dist.training.results import print_results


def test_random_competitors_without_edge_bank_figures_leave_a_gap() -> None:
    results = {
        "test": {"transductive": {"historical": {"ap": 0.75}, "random": {"mrr": 0.5}}},
        "baselines": {"edgebank_unlimited": {"test": {"transductive": {"historical": {"ap": 0.25}}}}},
    }
    out = io.StringIO()
    print_results(results, Console(file=out, width=100))
    assert all(figure in out.getvalue() for figure in ("0.7500", "0.5000", "0.2500"))
