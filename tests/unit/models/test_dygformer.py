"""DyGFormer: its size is the published one, its padding that of the batch, its parts what they should be."""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.sentences import refused
from tests.unit.models.small_models import (
    NODES,
    B,
    M,
    S,
    in_the_company_of_none,
    random_batch,
    small,
    there_and_back,
)
from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.common.dropout import Dropout
from tpnet_dist.models.common.transformer import PreNormBlock
from tpnet_dist.models.dygformer.co_occurrence import CoOccurrence, counts_of
from tpnet_dist.models.dygformer.config import DyGFormerConfig
from tpnet_dist.models.dygformer.sequences import alike, sequences_of
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.registry import spec_named

small_model = partial(small, "dygformer")


def told(batch: LinkBatch, *longest: int) -> LinkBatch:
    """With the longest histories of each end's whole batch."""
    return replace(batch, longest_BS=torch.tensor(longest).expand(len(batch), -1))


@pytest.mark.parametrize(
    ("patch_size", "published"),
    [(1, 1_087_035), (2, 1_111_735), (4, 1_161_135), (8, 1_259_935), (16, 1_457_535), (64, 2_643_135)],
)
def test_it_has_as_many_weights_as_published(patch_size: int, published: int) -> None:
    config = Config(model=DyGFormerConfig(patch_size=patch_size, sequence_length=64))
    model = spec_named("dygformer").make(config, LogShape(1000, 100, node_width=172, edge_width=172))
    assert sum(weight.numel() for weight in model.parameters()) == published


@pytest.mark.parametrize("profile", ["published", "corrected"])
def test_a_link_is_scored_the_same_in_any_part_of_its_batch(profile: str) -> None:
    model, batch = small_model(profile=profile), told(random_batch(ends=5), 4, 4, 2, 4, 3)
    together = model(batch)
    for apart in in_the_company_of_none(model, batch):
        torch.testing.assert_close(together, apart)


def test_published_scores_depend_on_the_longest_history_of_the_batch_and_corrected_ones_do_not() -> None:
    batch = random_batch()
    mask_BSM = batch.neighbor_mask_BSM.clone()
    mask_BSM[..., :2] = False
    batch = replace(batch, neighbor_mask_BSM=mask_BSM)
    for profile, is_same in (("published", False), ("corrected", True)):
        model = small_model(profile=profile)
        short, long = (model(told(batch, *[longest] * S)) for longest in (2, 4))
        assert torch.allclose(short, long, atol=1e-6) is is_same


def test_corrected_scores_are_those_of_each_link_alone_and_of_any_sequence_length() -> None:
    model, batch = small_model(profile="corrected"), random_batch()
    more = replace(
        batch,
        **{
            name: torch.cat([torch.zeros_like(each[:, :, :1]), each], 2)
            for name in ("neighbors_BSM", "neighbor_mask_BSM", "elapsed_BSM", "edge_features_BSMF")
            for each in [getattr(batch, name)]
        },
    )
    torch.testing.assert_close(model(more), model(batch))
    shortest = int(batch.neighbor_mask_BSM.sum((1, 2)).argmin())
    alone = model(batch[shortest : shortest + 1])
    torch.testing.assert_close(alone, model(batch)[shortest : shortest + 1])


def test_destinations_with_sequences_of_other_lengths_are_scored_as_by_themselves() -> None:
    model, batch = small_model(), random_batch(ends=4)
    batch = told(batch, 4, 4, 1, 4)
    batch.neighbor_mask_BSM[:, 2, : M - 1] = False
    parts = list(alike(batch, 2, as_published=True))
    assert [part.targets for part in parts] == [[1], [0, 2]]
    assert [(part.source_length, part.target_length) for part in parts] == [(6, 2), (6, 6)]
    one_by_one = torch.cat([model(part) for part in batch.split_targets(1)], 1)
    torch.testing.assert_close(model(batch), one_by_one)


@pytest.mark.parametrize("profile", ["published", "corrected"])
def test_what_stands_in_an_empty_slot_does_not_matter(profile: str) -> None:
    model, batch = small_model(profile=profile), random_batch()
    mask_BSM = batch.neighbor_mask_BSM
    changed = replace(
        batch,
        elapsed_BSM=batch.elapsed_BSM.where(mask_BSM, 7.0),
        neighbors_BSM=batch.neighbors_BSM.where(mask_BSM, 0),
        edge_features_BSMF=torch.where(mask_BSM[..., None], batch.edge_features_BSMF, 9.0),
    )
    assert torch.equal(model(batch), model(changed))


def test_in_training_what_is_dropped_belongs_to_the_event() -> None:
    model, batch = small_model(dropout=0.3).train(), told(random_batch(), 4, 4, 4)
    together = model(batch)
    alone, _ = in_the_company_of_none(model, batch)
    torch.testing.assert_close(together, alone)
    assert not torch.allclose(together, model.eval()(batch))


def test_sequences_begin_with_the_end_and_end_with_nothing() -> None:
    batch = random_batch()
    sequences = sequences_of(batch, slice(1, None), M + 2)
    node_ET, elapsed_ET = sequences.placed(sequences.node_F, -1), sequences.placed(sequences.elapsed_F)
    rows = [(event, end) for event in range(B) for end in range(1, S)]
    for row, (event, end) in enumerate(rows):
        mask_M = batch.neighbor_mask_BSM[event, end]
        nodes = [int(batch.ends_BS[event, end]), *batch.neighbors_BSM[event, end][mask_M].tolist()]
        elapsed = [0.0, *batch.elapsed_BSM[event, end][mask_M].tolist()]
        missing = M + 2 - len(nodes)
        assert node_ET[row].tolist() == nodes + missing * [-1]
        assert elapsed_ET[row].tolist() == elapsed + missing * [0.0]
    pieces = list(sequences.pieces(3 * (M + 2)))
    assert [len(piece) for piece in pieces] == [3, 3, 3, 3]
    assert torch.equal(torch.cat([piece.placed(piece.node_F, -1) for piece in pieces]), node_ET)


def test_projected_in_pieces_parts_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = small_model(), random_batch()
    whole = model(batch)
    monkeypatch.setattr("tpnet_dist.models.dygformer.model._MOST_PLACES", 7)
    torch.testing.assert_close(model(batch), whole)


def test_co_occurrence_counts_both_sequences() -> None:
    torch.manual_seed(0)
    node_ZT = torch.randint(-1, 4, (9, 11))
    counts_ZT2 = counts_of(node_ZT, 5)
    for row, nodes in enumerate(node_ZT.tolist()):
        of_source, of_target = Counter(nodes[:5]), Counter(nodes[5:])
        wanted = [[of_source[node], of_target[node]] if node >= 0 else [0, 0] for node in nodes]
        assert counts_ZT2[row].tolist() == wanted


def test_patches_of_counts_are_projections_of_what_they_are_encoded_to() -> None:
    torch.manual_seed(0)
    encoding, projection = CoOccurrence(4).double(), torch.nn.Linear(3 * 4, 4).double()
    counts_ZT2 = torch.randint(0, 5, (2, 6, 2))
    encoded_ZTK = sum(encoding.encode(each.flatten()).view(2, 6, 4) for each in counts_ZT2.unbind(-1))
    assert isinstance(encoded_ZTK, Tensor)
    wanted = projection(encoded_ZTK.view(2, 2, 12))
    found = encoding.patches(counts_ZT2, projection, 3)
    torch.testing.assert_close(found, wanted)
    weights = [*encoding.parameters(), *projection.parameters()]
    slopes = [
        torch.autograd.grad(each.square().sum(), weights, retain_graph=True) for each in (found, wanted)
    ]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other)


def test_a_pre_norm_block_is_torchs_own_and_its_pooled_tokens_are_their_means() -> None:
    torch.manual_seed(0)
    block, x_ZMK = PreNormBlock(12, 2).double(), torch.randn(3, 5, 12, dtype=torch.float64)
    theirs = torch.nn.TransformerEncoderLayer(
        12, 2, 48, dropout=0, activation="gelu", batch_first=True, norm_first=True, dtype=torch.float64
    )
    attention = block.attention
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": attention.inputs.weight,
            "self_attn.in_proj_bias": attention.inputs.bias,
            **{f"self_attn.out_proj.{name}": each for name, each in attention.output.state_dict().items()},
            **{
                f"{their}.{name}": each
                for their, ours in (
                    ("linear1", block.first),
                    ("linear2", block.second),
                    ("norm1", block.norms[0]),
                    ("norm2", block.norms[1]),
                )
                for name, each in ours.state_dict().items()
            },
        }
    )
    out_ZMK = block(x_ZMK, None, Dropout())
    torch.testing.assert_close(out_ZMK, theirs(x_ZMK))
    share_Z2M = torch.rand(3, 2, 5, dtype=torch.float64)
    share_Z2M /= share_Z2M.sum(2, keepdim=True)
    torch.testing.assert_close(block.pooled(x_ZMK, None, share_Z2M, Dropout()), share_Z2M @ out_ZMK)


@pytest.mark.parametrize("features", [{}, {"node_width": 0}, {"node_width": 0, "edge_width": 0}], ids=str)
def test_weights_go_out_and_come_back_by_their_published_names(features: dict[str, int]) -> None:
    published, told = there_and_back("dygformer", small_model(**features), small_model(**features))
    assert published["0.projection_layer.node.weight"].shape == (4, 2 * 8)
    assert told == DyGFormerConfig(patch_size=2, part_channels=4, channels=8, time_width=6, layers=2)


def test_features_that_do_not_exist_are_like_zeros() -> None:
    names = spec_named("dygformer").state_names
    assert names is not None
    batch, wide, narrow = random_batch(), small_model(), small_model(node_width=0, edge_width=0)
    names.load(narrow, names.to_published(wide))
    nothing = replace(
        batch,
        node_features_UF=torch.zeros(NODES, 3),
        edge_features_BSMF=torch.zeros(*batch.neighbors_BSM.shape, 2),
    )
    torch.testing.assert_close(narrow(batch), wide(nothing))


REFUSED: tuple[dict[str, Any], ...] = (
    {"sequence_length": 30, "patch_size": 4},
    {"sequence_length": 1},
    {"patch_size": 0},
    {"part_channels": 25, "heads": 3},
    {"dropout": 1.0},
)


@pytest.mark.parametrize("settings", REFUSED, ids=str)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any]) -> None:
    with refused():
        DyGFormerConfig(**settings)
