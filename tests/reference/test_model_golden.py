"""The model with the published weights gives the published numbers: embeddings, pair features, logits."""

from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from reference.literal_model import LiteralTPNet, literal_links
from tests.reference.golden_queries import query_of, weights_of
from tests.support.shared_folder import shared_folder
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tpnet.model import TPNet
from tpnet_dist.models.tpnet.published_names import load_published, published_sizes, to_published

FILES = ("uci_golden.npz", "canparl_golden.npz")
LINKS = ("positive", "negative")
TOLERANCE = 1e-5


@cache
def arrays_of(name: str) -> dict[str, Any]:
    path: Path = shared_folder() / "reference" / name
    with np.load(path) as stored:
        return dict(stored)


def model_of(golden: dict[str, Any], query: LinkBatch) -> TPNet:
    """Node features do not exist, edge features in one file only: their columns are left out."""
    edge_width = 0 if query.edge_features_BSMF is None else query.edge_features_BSMF.shape[-1]
    sizes = {**asdict(published_sizes(weights_of(golden))), "node_width": 0, "edge_width": edge_width}
    model = TPNet(**sizes, profile="published").eval()
    load_published(model, weights_of(golden))
    return model


def assert_golden(found: Tensor, golden: dict[str, Any], key: str) -> None:
    torch.testing.assert_close(found, torch.from_numpy(golden[key]), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("file", FILES)
@torch.no_grad()
def test_model_gives_the_published_numbers(file: str) -> None:
    golden = arrays_of(file)
    query = query_of(golden)
    model = model_of(golden, query)
    links, logits_BC = model.embed(query), model(query)
    assert_golden(links.pair_features_BCP[:, 0], golden, "pair_features_src_dst")
    for target, kind in enumerate(LINKS):
        assert_golden(links.source_BCK[:, target], golden, f"{kind}_src_embedding")
        assert_golden(links.target_BCK[:, target], golden, f"{kind}_dst_embedding")
        assert_golden(logits_BC[:, target], golden, f"{kind}_logits")


@pytest.mark.parametrize("file", FILES)
@torch.no_grad()
def test_literal_model_gives_the_published_numbers(file: str) -> None:
    golden = arrays_of(file)
    sizes = published_sizes(weights_of(golden))
    literal = LiteralTPNet(sizes).eval()
    literal.load_state_dict(weights_of(golden))
    query = query_of(golden)
    for target, kind in enumerate(LINKS):
        links = literal_links(query, target, sizes)
        h_X2K = literal.embed(links)
        assert_golden(h_X2K[:, 0], golden, f"{kind}_src_embedding")
        assert_golden(h_X2K[:, 1], golden, f"{kind}_dst_embedding")
        assert_golden(literal(links), golden, f"{kind}_logits")
    raw_P = literal.raw_pair_features(*query.rows_ULD[query.ends_BS[:, :2]].unbind(1))
    torch.testing.assert_close(
        raw_P, torch.from_numpy(golden["raw_pair_features_src_dst"]), rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("file", FILES)
def test_published_weights_survive_the_way_here_and_back(file: str) -> None:
    weights = weights_of(arrays_of(file))
    sizes = published_sizes(weights)
    model = TPNet(**asdict(sizes))
    load_published(model, weights)
    back = to_published(model, node_width=sizes.node_width, edge_width=sizes.edge_width)
    assert back.keys() == weights.keys()
    for name, tensor in weights.items():
        assert torch.equal(back[name], tensor), name
