"""The paper's tables as the package holds them: every figure, in every spelling, as the paper prints it."""

import itertools
import re

import pytest

from tests.support.shared_folder import shared_folder
from tpnet_dist.config.paper_values import PaperValue, paper_dataset, paper_datasets, paper_value
from tpnet_dist.config.toml_files import preset_names

SETTINGS = ("transductive", "inductive")
KINDS = ("random", "historical", "inductive")
METRICS = ("ap", "auc")
ALL = list(itertools.product(SETTINGS, KINDS, METRICS))

SPELLINGS = {
    "uci": ["uci", "UCI", "ml_uci.csv", "CollegeMsg", "CollegeMsg.txt"],
    "can_parl": ["can_parl", "CanParl", "Can. Parl.", "ml_CanParl"],
    "contact": ["Contacts", "contact"],
    "social_evo": ["SocialEvo", "Social Evo."],
    "un_trade": ["UNtrade", "un-trade"],
}


@pytest.mark.parametrize("key", SPELLINGS)
def test_a_dataset_is_known_by_every_usual_spelling(key: str) -> None:
    found = [paper_dataset(name) for name in SPELLINGS[key]]
    assert {dataset.key for dataset in found if dataset} == {key}
    assert None not in found


@pytest.mark.parametrize("name", ["", "social", "uci2", "my_uci", "mooc-full"])
def test_a_name_that_only_resembles_one_is_not_known(name: str) -> None:
    assert paper_dataset(name) is None
    assert paper_value(name, "transductive", "random", "ap", model="tpnet") is None


def test_the_paper_has_a_figure_of_tpnet_for_all_six_settings_of_every_preset() -> None:
    assert set(preset_names()) - {"social"} == set(paper_datasets())
    for key, args in itertools.product(paper_datasets(), ALL):
        value = paper_value(key, *args, model="tpnet")
        assert value is not None
        assert 0.4 < value.mean < 1
        assert 0 <= value.std < 0.06


def test_edgebank_stands_in_the_transductive_tables_only() -> None:
    for key, (setting, kind, metric) in itertools.product(paper_datasets(), ALL):
        value = paper_value(key, setting, kind, metric, model="edgebank")
        assert (value is None) == (setting == "inductive")


def test_figures_are_shares_of_one() -> None:
    assert paper_value("uci", "transductive", "random", "ap", model="tpnet") == PaperValue(0.9735, 0.0004)
    assert paper_value("uci", "transductive", "random", "ap", model="edgebank") == PaperValue(0.762, 0.0)
    assert paper_value("uci", "transductive", "random", "mrr", model="tpnet") is None


def test_every_figure_is_the_one_the_paper_prints() -> None:
    source = shared_folder() / "paper" / "tpnet.tex"
    printed = figures_of(source.read_text())
    # twelve models, of which EdgeBank is not in the inductive tables
    assert len(printed) == 13 * 3 * 2 * (12 + 11)
    for (name, setting, kind, metric, model), (mean, std) in printed.items():
        value = paper_value(name, setting, kind, metric, model=model)
        assert value is not None
        assert (f"{value.mean * 100:.2f}", f"{value.std * 100:.2f}") == (mean, std)


def figures_of(tex: str) -> dict[tuple[str, ...], tuple[str, str]]:
    """By what stands in the rows' and the columns' heads; the inductive tables call TPNet "RPNet"."""
    found = {}
    for table in re.findall(r"\\begin\{table\}.*?\\end\{table\}", tex, flags=re.DOTALL):
        caption = re.search(r"(Transductive|Inductive) results for .*?(\w+) negative sampling", table)
        if caption is None:
            continue
        setting, kind = caption[1].lower(), caption[2]
        head = re.search(r"Metrics? *& *Datasets? *&(.*?)\\\\", table)
        assert head is not None
        models = [name.strip().lower().replace("rpnet", "tpnet") for name in head[1].split("&")]
        for metric, part in zip(METRICS, table.split("multirow{14}")[1:], strict=True):
            for row in re.findall(r"& +([A-Z][A-Za-z. ]+?) +& (.*?\$.*?)\\\\", part):
                figures = re.findall(r"(\d+\.\d+)\{\\scriptscriptstyle \\pm (\d+\.\d+)", row[1])
                for model, printed in zip(models, figures, strict=True):
                    found[row[0], setting, kind, metric, model] = printed
    return found
