"""The forms for GPUs and compilers compute what the host's forms do.

A compiler that compiles nothing (`backend="eager"`) runs the plain forms on the host.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.unit.models.random_queries import random_model, random_query
from tests.unit.models.small_models import built
from tpnet_dist.keyed_random import mix_in, words_of
from tpnet_dist.models.common.dropout import (
    CALLS_AHEAD,
    DeviceBytes,
    DeviceDropout,
    MaskShape,
    event_keys,
    with_dropout_states,
)
from tpnet_dist.models.common.mixer import Mixer
from tpnet_dist.models.link_batch import LinkBatch

KEYS = event_keys(3, 1, torch.arange(4))
VARIANTS = {
    "paper": {},
    "published": {"profile": "published"},
    "features": {"node_width": 3, "edge_width": 2},
    "unscaled": {"scale": False},
    "two timescales": {"timescales": 2},
    "two timescales, all products": {"timescales": 2, "cross_timescales": True, "scale": False},
    "no memory": {"use_memory": False, "edge_width": 2},
}


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch.compiler.reset()


def plain(model: torch.nn.Module, query: LinkBatch) -> Tensor:
    logits: Tensor = torch.compile(model, backend="eager")(query)
    return logits


def gradients(model: torch.nn.Module, logits: Tensor) -> list[Tensor]:
    weights = torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).view_as(logits)
    return list(torch.autograd.grad((logits * weights).sum(), list(model.parameters())))


@pytest.mark.parametrize("options", VARIANTS.values(), ids=list(VARIANTS))
def test_plain_forms_of_tpnet_give_logits_and_gradients_of_the_hosts(options: dict[str, Any]) -> None:
    sizes = {name: options[name] for name in ("node_width", "edge_width", "use_memory") if name in options}
    query = random_query(targets=3, hops=3 * options.get("timescales", 1), dtype=torch.float64, **sizes)
    model = random_model(**options).double()
    on_host, plainly = model(query), plain(model, query)
    torch.testing.assert_close(plainly, on_host)
    for found, wanted in zip(gradients(model, plainly), gradients(model, on_host), strict=True):
        assert wanted.any()
        torch.testing.assert_close(found, wanted)


def test_plain_forms_of_graphmixer_give_logits_of_the_hosts() -> None:
    model = built("graphmixer", neighbors=6, time_width=8, channels=12, edge_width=2).double()
    query = random_query(edge_width=2, dtype=torch.float64)
    torch.testing.assert_close(plain(model, query), model(query))


def test_events_without_any_are_scored_plainly_too() -> None:
    query, model = random_query(), random_model(dropout=0.1)
    logits = plain(model, query[3:3])
    assert logits.shape == (0, 2)
    logits.sum().backward()
    assert not any(weight.grad is not None and weight.grad.any() for weight in model.parameters())


def test_plain_products_in_bfloat16_are_near_the_hosts() -> None:
    query, model = random_query(), random_model(bfloat16=True)
    torch.testing.assert_close(plain(model, query), model(query), rtol=0, atol=0.01)


@pytest.mark.parametrize("known_states", [0, 5, CALLS_AHEAD], ids=["none", "all", "more"])
def test_all_masks_drawn_at_once_are_those_drawn_one_by_one(known_states: int) -> None:
    states_BM = with_dropout_states(replace(random_query(), dropout_keys_B=KEYS)).dropout_states_BM
    assert states_BM is not None and states_BM.shape == (len(KEYS), CALLS_AHEAD)
    counts, bytes_of = (5, 16, 3, 100), DeviceBytes(KEYS, states_BM[:, :known_states])
    bytes_of.draw(7)
    at_once = bytes_of.draw_calls(counts).split([8, 16, 8, 104], 1)
    for call, (count, drawn) in enumerate(zip(counts, at_once, strict=True), start=2):
        one = words_of(mix_in(KEYS, call), -(-count // 8)).view(torch.uint8)
        assert torch.equal(drawn[:, :count], one[:, :count])


def test_masks_of_an_event_do_not_depend_on_its_company() -> None:
    masks, values = [MaskShape(3, 10), MaskShape(6, 10)], [torch.ones(3, 8, 10), torch.ones(6, 8, 10)]
    together, alone = DeviceDropout(KEYS, 0.4), DeviceDropout(KEYS[2:3], 0.4)
    together.expect(masks, 8)
    alone.expect(masks, 2)
    for each in values:
        kept = together.drop_(each)
        assert 0 < kept.mean() < 1
        assert torch.equal(kept[:, 4:6], alone.drop_(each[:, 4:6]))


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_the_plain_mixer_equals_its_definition(rate: float) -> None:
    tokens, sequences, channels = 6, 8, 10
    torch.manual_seed(0)
    mixer = Mixer(2, tokens, channels).double()
    for weight in mixer.parameters():
        torch.nn.init.normal_(weight, 0.2, 0.5)
    x = torch.randn(tokens, sequences, channels, dtype=torch.float64)
    found = torch.compile(lambda x: mixer(x, DeviceDropout(KEYS, rate)), backend="eager")(x)
    torch.testing.assert_close(found, written_out(mixer, x, DeviceDropout(KEYS, rate)))


def written_out(mixer: Mixer, x_MZK: Tensor, dropout: DeviceDropout) -> Tensor:
    """LayerNorm, linear, GELU, dropout, linear, dropout, and the sum: along tokens, then along channels."""
    dropout.expect(mixer.masks, x_MZK.shape[1])
    for layer in mixer.layers:
        for mixing, turn in ((layer.tokens, (1, 2, 0)), (layer.channels, (0, 1, 2))):
            back = torch.tensor(turn).argsort().tolist()
            normal = mixing.norm(x_MZK.permute(turn))
            hidden = F.gelu(mixing.first(normal)).permute(back).contiguous()
            kept = (dropout.drop_(hidden) * dropout.scale).permute(turn)
            mixed = mixing.second(kept).permute(back).contiguous()
            x_MZK = x_MZK + dropout.drop_(mixed) * dropout.scale
    return x_MZK.mean(0)
