"""TCL: its size is the published one, empty slots do not matter, and weights have published names."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from tests.unit.models.small_models import M, in_the_company_of_none, random_batch, small, there_and_back
from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.registry import spec_named
from tpnet_dist.models.tcl.config import TCLConfig

small_model = partial(small, "tcl")


def test_it_has_as_many_weights_as_published() -> None:
    shape = LogShape(1000, 100, node_width=172, edge_width=172)
    model = spec_named("tcl").make(Config(model=TCLConfig()), shape)
    assert sum(weight.numel() for weight in model.parameters()) == 884_453


@pytest.mark.parametrize("profile", ["published", "corrected"])
def test_a_link_is_scored_the_same_in_any_company(profile: str) -> None:
    model, batch = small_model(profile=profile), random_batch(ends=5)
    together = model(batch)
    for apart in in_the_company_of_none(model, batch):
        torch.testing.assert_close(together, apart)


def test_what_stands_in_an_empty_slot_does_not_matter() -> None:
    model, batch = small_model(), random_batch()
    mask_BSM = batch.neighbor_mask_BSM
    changed = replace(
        batch,
        elapsed_BSM=batch.elapsed_BSM.where(mask_BSM, 7.0),
        neighbors_BSM=batch.neighbors_BSM.where(mask_BSM, 0),
    )
    assert torch.equal(model(batch), model(changed))


def test_corrected_places_do_not_depend_on_the_number_of_slots() -> None:
    """One empty slot more for everybody: the published profile moves all interactions by one."""
    batch = random_batch()
    more = replace(
        batch,
        **{
            name: torch.cat([torch.zeros_like(each[:, :, :1]), each], 2)
            for name in ("neighbors_BSM", "neighbor_mask_BSM", "elapsed_BSM", "edge_features_BSMF")
            for each in [getattr(batch, name)]
        },
    )
    for profile, is_same in (("published", False), ("corrected", True)):
        narrow, wide = small_model(profile=profile), small_model(profile=profile, neighbors=M + 1)
        places = wide.places.detach()
        wide.load_state_dict({**narrow.state_dict(), "places": places})
        narrow.places = torch.nn.Parameter(places[: M + 1])
        assert torch.allclose(narrow(batch), wide(more), atol=1e-6) is is_same


def test_in_training_what_is_dropped_belongs_to_the_event() -> None:
    model, batch = small_model(dropout=0.3).train(), random_batch()
    together = model(batch)
    alone, _ = in_the_company_of_none(model, batch)
    torch.testing.assert_close(together, alone)
    assert not torch.allclose(together, model.eval()(batch))


@pytest.mark.parametrize("features", [{}, {"node_width": 0}, {"node_width": 0, "edge_width": 0}], ids=str)
def test_weights_go_out_and_come_back_by_their_published_names(features: dict[str, int]) -> None:
    published, told = there_and_back("tcl", small_model(**features), small_model(**features))
    assert published["0.projection_layer.node.weight"].shape == (8, 8)
    assert told == TCLConfig(neighbors=M, channels=8, time_width=6, layers=2)


def test_foreign_weights_are_refused() -> None:
    names = spec_named("tcl").state_names
    assert names is not None
    with pytest.raises(ValueError, match="no weight of TCL"):
        names.load(small_model(), {"0.strange": torch.zeros(1)})
    published = names.to_published(small_model())
    del published["1.fc1.weight"]
    with pytest.raises(ValueError, match=r"1\.fc1\.weight' is missing"):
        names.load(small_model(), published)
    with pytest.raises(ValueError, match=r"in the checkpoint, but .* in the model"):
        names.load(small_model(neighbors=M + 1), names.to_published(small_model()))
