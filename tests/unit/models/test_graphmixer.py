"""GraphMixer: its size is the published one, and what is cut or padded changes no score."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from tests.unit.models.small_models import small, there_and_back
from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.graphmixer.config import GraphMixerConfig
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.registry import spec_named

B, S, M = 6, 3, 4


small_model = partial(small, "graphmixer", node_width=0, edge_width=0)


def random_batch() -> LinkBatch:
    torch.manual_seed(1)
    return LinkBatch(
        ends_BS=torch.randint(10, (B, S)),
        neighbors_BSM=torch.randint(10, (B, S, M)),
        neighbor_mask_BSM=torch.rand(B, S, M).sort(-1).values > 0.4,
        elapsed_BSM=torch.rand(B, S, M) * 1000,
        node_features_UF=torch.randn(10, 3),
        edge_features_BSMF=torch.randn(B, S, M, 2),
        neighbor_means_BSF=torch.randn(B, S, 3),
    )


@pytest.mark.parametrize(("neighbors", "published"), [(10, 641_831), (20, 642_501), (30, 643_571)])
def test_it_has_as_many_weights_as_published(neighbors: int, published: int) -> None:
    config = Config(model=GraphMixerConfig(neighbors=neighbors))
    model = spec_named("graphmixer").make(config, LogShape(1000, 100, node_width=172, edge_width=172))
    assert sum(weight.numel() for weight in model.parameters()) == published


def test_an_event_is_scored_the_same_in_any_company() -> None:
    model, batch = small_model(node_width=3, edge_width=2), random_batch()
    together = model(batch)
    alone = torch.cat([model(batch[number : number + 1]) for number in range(B)])
    torch.testing.assert_close(together, alone)
    by_target = torch.cat([model(part) for part in batch.split_targets(1)], dim=1)
    torch.testing.assert_close(together, by_target)


def test_what_stands_in_an_empty_slot_does_not_matter() -> None:
    model, batch = small_model(), random_batch()
    elapsed = torch.where(batch.neighbor_mask_BSM, batch.elapsed_BSM, 7.0)
    assert torch.equal(model(batch), model(replace(batch, elapsed_BSM=elapsed)))


def test_weights_go_out_and_come_back_by_their_published_names() -> None:
    model, other = small_model(node_width=3, edge_width=2), small_model(node_width=3, edge_width=2)
    published, told = there_and_back("graphmixer", model, other)
    assert published["0.projection_layer.weight"].shape == (8, 8 + 6)
    assert told == GraphMixerConfig(neighbors=M, channels=8, time_width=6, mixer_layers=1)


def test_tokens_may_be_wider_than_embeddings() -> None:
    models = [small_model(node_width=3, edge_width=9, token_channels=11) for _ in range(2)]
    published, told = there_and_back("graphmixer", *models)
    assert published["0.projection_layer.weight"].shape == (11, 11 + 6)
    assert published["0.output_layer.weight"].shape == (8, 11 + 8)
    assert told == GraphMixerConfig(neighbors=M, channels=8, token_channels=11, time_width=6, mixer_layers=1)
    assert models[0].embed(replace(random_batch(), edge_features_BSMF=torch.randn(B, S, M, 9))).shape == (
        B,
        S,
        8,
    )


def test_foreign_weights_are_refused() -> None:
    names = spec_named("graphmixer").state_names
    assert names is not None
    with pytest.raises(ValueError, match="no weight of GraphMixer"):
        names.load(small_model(), {"0.strange": torch.zeros(1)})


@pytest.mark.parametrize("training", [False, True])
def test_corrected_leaves_empty_slots_out(training: bool) -> None:
    """What stands in them does not matter, nor that there are any but for the weights of their places."""
    model, batch = small_model(profile="corrected", edge_width=2, dropout=0.0), random_batch()
    model.train(training)
    mask_BSM = batch.neighbor_mask_BSM
    changed = replace(
        batch,
        elapsed_BSM=batch.elapsed_BSM.where(mask_BSM, 7.0),
        edge_features_BSMF=torch.where(mask_BSM[..., None], batch.edge_features_BSMF, 5.0),
    )
    assert torch.equal(model(batch), model(changed))
    published = small_model(edge_width=2, dropout=0.0)
    full = replace(batch, neighbor_mask_BSM=torch.ones_like(mask_BSM))
    torch.testing.assert_close(model(full), published(full))
    assert not torch.allclose(model(batch), published(batch))


def test_corrected_mean_of_tokens_is_that_of_those_which_are_there() -> None:
    model, batch = small_model(profile="corrected", edge_width=2), random_batch()
    with torch.no_grad():
        for name, weight in model.mixer.named_parameters():
            # a mixer that adds nothing
            if "second" in name:
                weight.zero_()
        mask_BSM1 = batch.neighbor_mask_BSM[..., None]
        inputs = [batch.edge_features_BSMF, model.time_encoding(batch.elapsed_BSM)]
        tokens = model.tokens(torch.cat(inputs, -1)) * mask_BSM1
        mean = tokens.sum(2) / mask_BSM1.sum(2).clamp(min=1)
        torch.testing.assert_close(model.embed(batch), model.output(mean))


def test_corrected_mean_of_features_is_divided_once() -> None:
    batch = random_batch()
    published, corrected = (small_model(node_width=3, profile=name) for name in ("published", "corrected"))
    assert batch.neighbor_means_BSF is not None
    larger = replace(batch, neighbor_means_BSF=batch.neighbor_means_BSF * 5)
    full = torch.ones_like(batch.neighbor_mask_BSM)
    torch.testing.assert_close(
        published(replace(larger, neighbor_mask_BSM=full)), corrected(replace(batch, neighbor_mask_BSM=full))
    )
