"""TGAT: its size is the published one, company changes no score, profiles differ where they say."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from tests.unit.models.small_models import (
    M,
    in_the_company_of_none,
    random_batch,
    small,
    spread,
    there_and_back,
    with_hops,
)
from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.errors import InputError
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.registry import spec_named
from tpnet_dist.models.tgat.config import TGATConfig

small_model = partial(small, "tgat")


def test_it_has_as_many_weights_as_published() -> None:
    shape = LogShape(1000, 100, node_width=172, edge_width=172)
    model = spec_named("tgat").make(Config(model=TGATConfig()), shape)
    assert sum(weight.numel() for weight in model.parameters()) == 1_052_945


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("profile", ["published", "corrected"])
def test_a_link_is_scored_the_same_in_any_company(profile: str, layers: int) -> None:
    model, batch = small_model(profile=profile, layers=layers), with_hops(random_batch(ends=5), hops=layers)
    together = model(batch)
    for apart in in_the_company_of_none(model, batch):
        torch.testing.assert_close(together, apart)


def test_in_training_what_is_dropped_belongs_to_the_event_and_to_the_neighbour() -> None:
    model, batch = small_model(dropout=0.3).train(), with_hops(random_batch())
    together = model(batch)
    alone, _ = in_the_company_of_none(model, batch)
    torch.testing.assert_close(together, alone)
    assert not torch.allclose(together, model.eval()(batch))


def later(batch: LinkBatch, seconds: float) -> LinkBatch:
    """As if the log's time 0 lay that much earlier."""
    [hop] = batch.hops
    of_hop = (hop.nodes_V > -1)[:, None] & ~hop.mask_VM & (torch.arange(len(hop.nodes_V)) > 0)[:, None]
    moved = replace(hop, elapsed_VM=hop.elapsed_VM + seconds * of_hop)
    return replace(batch, elapsed_BSM=batch.elapsed_BSM + seconds * ~batch.neighbor_mask_BSM, hops=(moved,))


def test_only_the_published_profile_tells_the_time_of_those_who_met_nobody() -> None:
    batch = with_hops(random_batch())
    for profile, is_same in (("published", False), ("corrected", True)):
        model = small_model(profile=profile)
        assert torch.equal(model(batch), model(later(batch, 777.0))) is is_same


def test_profiles_agree_on_those_who_met_somebody() -> None:
    batch = with_hops(random_batch(), hops=1)
    batch = replace(batch, neighbor_mask_BSM=torch.ones_like(batch.neighbor_mask_BSM), hops=())
    one, other = (small_model(profile=profile, layers=1) for profile in ("published", "corrected"))
    assert torch.equal(one(batch), other(batch))


def test_an_empty_slice_has_no_logits_and_zero_gradients() -> None:
    model = small_model(dropout=0.1).train()
    logits_BC = model(with_hops(random_batch())[6:])
    assert logits_BC.shape == (0, 2)
    logits_BC.sum().backward()
    assert all(torch.count_nonzero(weight.grad) == 0 for weight in model.parameters())


@pytest.mark.parametrize("features", [{}, {"node_width": 0}, {"node_width": 0, "edge_width": 0}], ids=str)
def test_weights_go_out_and_come_back_by_their_published_names(features: dict[str, int]) -> None:
    published, told = there_and_back("tgat", small_model(**features), small_model(**features))
    assert published["0.temporal_conv_layers.0.key_projection.weight"].shape == (14, 8 + 8 + 6)
    assert told == TGATConfig(channels=8, time_width=6, layers=2)


def test_absent_features_change_no_score() -> None:
    """They are zeros to the published code."""
    names = spec_named("tgat").state_names
    assert names is not None
    whole, narrow = spread(small_model()), small_model(node_width=0, edge_width=0)
    names.load(narrow, names.to_published(whole))
    batch = with_hops(random_batch())
    assert batch.node_features_UF is not None and batch.edge_features_BSMF is not None
    [hop] = batch.hops
    assert hop.edge_features_VMF is not None
    zeros = replace(
        batch,
        node_features_UF=torch.zeros_like(batch.node_features_UF),
        edge_features_BSMF=torch.zeros_like(batch.edge_features_BSMF),
        hops=(replace(hop, edge_features_VMF=torch.zeros_like(hop.edge_features_VMF)),),
    )
    bare_hop = replace(hop, edge_features_VMF=None)
    bare = replace(batch, node_features_UF=None, edge_features_BSMF=None, hops=(bare_hop,))
    torch.testing.assert_close(whole(zeros), narrow(bare), rtol=1e-5, atol=1e-5)


def test_node_features_wider_than_embeddings_are_refused() -> None:
    config = Config(model=TGATConfig(channels=8, time_width=6, neighbors=M))
    with pytest.raises(InputError, match=r"model\.channels is 8, but must be at least 9"):
        spec_named("tgat").make(config, LogShape(1000, 100, node_width=9))
