"""What models compute on the way, in the order in which the published code calls its modules.

A recorded call holds the first rows of one module's output: of the sources and destinations of the events,
then of the sources and destinations of their negatives. We compute an end, and what stands in its slots, once
for all of these, so calls are put together from what we have.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tests.reference.golden_file import Array
from tpnet_dist.models.cawn.model import CAWN
from tpnet_dist.models.cawn.trees import Sides, landings_of, probabilities_of, tokens_of, trees_of
from tpnet_dist.models.common.dropout import Dropout
from tpnet_dist.models.common.mixer import MixerLayer
from tpnet_dist.models.dygformer.co_occurrence import counts_of
from tpnet_dist.models.dygformer.model import DyGFormer
from tpnet_dist.models.dygformer.sequences import AlikeLinks, alike, nodes_of_links, sequences_of
from tpnet_dist.models.graphmixer.model import GraphMixer
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tgat.levels import Level, levels_of
from tpnet_dist.models.tgat.model import TGAT, TGATLayer

_SIDES = (0, 1, 0, 2)
"""Which end of an event each call is about."""


def is_compared(model_name: str, key: str) -> bool:
    """Whether `intermediates_of` finds this quantity of a file."""
    return key.startswith(_COMPARED.get(model_name, ()))


def intermediates_of(model_name: str, model: nn.Module, batch: LinkBatch) -> dict[str, Tensor]:
    """For each call (B, rows of an event, …)."""
    probe = _PROBES.get(model_name)
    return {} if probe is None else dict(probe(model, batch))


def share_of_rows(values: Tensor, first_event: int, recorded: int) -> Array:
    """Those of the first `recorded` rows of all events that this rank has, whose events begin at
    `first_event`."""
    return values.flatten(0, 1)[: max(0, recorded - first_event * values.shape[1])].numpy()


@contextmanager
def outputs_of(modules: list[nn.Module]) -> Iterator[list[list[Tensor]]]:
    """The outputs of each module's calls while the context lasts."""
    outputs: list[list[Tensor]] = [[] for _ in modules]

    def note(number: int) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda module, args, output: outputs[number].append(output)

    handles = [module.register_forward_hook(note(number)) for number, module in enumerate(modules)]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


# ---- of each model -----------------------------------------------------------------------------------------

Calls = Iterator[tuple[str, Tensor]]


def _of_tgat(model: nn.Module, batch: LinkBatch) -> Calls:
    """Every layer of an end asks for the layer before of the end itself, then of its neighbours."""
    assert isinstance(model, TGAT)
    blocks = [block for block in model.blocks if isinstance(block, TGATLayer)]
    levels = list(levels_of(batch, 0.0, training=False))
    events = torch.arange(len(batch))[:, None]
    for name, modules in {
        "temporal_conv_layers": [block.attention for block in blocks],
        "merge_layers": list(blocks),
    }.items():
        with outputs_of([*modules]) as outputs:
            model.embed(batch)
        numbers = [0] * len(blocks)
        for end in _SIDES:
            for layer, level, rows_BT in _calls_of(
                len(blocks), events * batch.ends_BS.shape[1] + end, levels
            ):
                yield f"intermediate/0.{name}.{layer}/call{numbers[layer]}", outputs[layer][level][rows_BT]
                numbers[layer] += 1


def _calls_of(
    depth: int, rows_BT: Tensor, levels: list[Level], level: int = 0
) -> Iterator[tuple[int, int, Tensor]]:
    """Layer, level and rows there of each call that embedding these rows of a level takes."""
    if depth > 1:
        yield from _calls_of(depth - 1, rows_BT, levels, level)
        next_rows_TM = levels[level].next_rows_TM
        assert next_rows_TM is not None
        yield from _calls_of(depth - 1, next_rows_TM[rows_BT].flatten(1), levels, level + 1)
    yield depth - 1, level, rows_BT


def _of_cawn(model: nn.Module, batch: LinkBatch) -> Calls:
    """Sides follow one another as the published code has them, but for the events, which come first here."""
    assert isinstance(model, CAWN)
    num_events, num_ends = batch.ends_BS.shape
    with outputs_of([model.tokens, model.block]) as outputs, _steps_of(model) as steps:
        model.embed(batch)
    sides, trees = Sides.of(num_events, num_ends), trees_of(batch)
    of_walk_ZM = tokens_of(trees, sides)[-1].of_slot_ZM
    [[token_TK], [walk_ZMK]] = outputs
    walked = {
        "feature_encoder": torch.cat(steps[0])[of_walk_ZM],
        "position_encoder": torch.cat(steps[1])[of_walk_ZM],
        "projection_layers.0": token_TK[of_walk_ZM],
        "transformer_encoder": walk_ZMK,
    }
    landings = [
        _by_walk(code, of_walk_ZM) for each in landings_of(trees, sides) for code in vars(each).values()
    ]
    own_ZMH, other_ZMH = torch.stack(landings[::2], -1), torch.stack(landings[1::2], -1)
    hops = model.positions.walk_length
    shares = [probabilities_of(code, model.positions.neighbors, hops) for code in (own_ZMH, other_ZMH)]
    position_ZMHK = sum(model.positions.encode(each) for each in shares)
    for number in range(4):
        # of each event: the source for its destination and its negative, then these two
        link, is_target = divmod(number, 2)
        side_B = torch.arange(num_events) * 4 + 2 * is_target + link
        for name, values in walked.items():
            yield f"intermediate/0.walk_encoder.{name}/call{number}", values[side_B][:, None]
        yield f"intermediate/0.position_encoder/call{number}", position_ZMHK[side_B][:, None]
        ordered = shares[::-1] if is_target else shares
        by_root = torch.stack(ordered, -2)[side_B][:, None]
        link_name, end_name = ("positive", "negative")[link], ("src", "dst")[is_target]
        yield f"landing_probabilities/{link_name}_{end_name}", by_root


@contextmanager
def _steps_of(model: CAWN) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """What each LSTM puts out, hop by hop."""
    steps: tuple[list[Tensor], list[Tensor]] = ([], [])
    for lstm, outs in zip((model.feature_walks, model.position_walks), steps, strict=True):

        def noted(
            *args: Tensor, step: Callable[..., tuple[Tensor, Tensor]] = lstm.step, outs: list[Tensor] = outs
        ) -> tuple[Tensor, Tensor]:
            stepped = step(*args)
            outs.append(stepped[0])
            return stepped

        lstm.__dict__["step"] = noted
    try:
        yield steps
    finally:
        for lstm in (model.feature_walks, model.position_walks):
            del lstm.__dict__["step"]


def _by_walk(code_ZM: Tensor, of_walk_ZM: Tensor) -> Tensor:
    """Of a hop, for each walk that passes it."""
    return code_ZM.repeat_interleave(of_walk_ZM.shape[1] // code_ZM.shape[1], 1)


def _of_dygformer(model: nn.Module, batch: LinkBatch) -> Calls:
    """Of each event its link, then that of its negative; sides may be longer in one than in the other."""
    assert isinstance(model, DyGFormer)
    for part in alike(batch, model.patch_size, as_published=True):
        for column, link in enumerate(part.targets):
            [one] = alike(part.batch.with_targets([column]), model.patch_size, as_published=True)
            yield from _of_link(model, one, link)


def _of_link(model: DyGFormer, link: AlikeLinks, number: int) -> Calls:
    name = ("positive", "negative")[number]
    ends = (slice(0, 1), slice(1, None))
    lengths = (link.source_length, link.target_length)
    source, target = (sequences_of(link.batch, *each) for each in zip(ends, lengths, strict=True))
    counts_BT2 = counts_of(nodes_of_links(source, target, 1), link.source_length)
    for side, (end, counts) in enumerate(zip(("src", "dst"), counts_BT2.split(lengths, 1), strict=True)):
        yield f"co_occurrence/{name}_{end}", counts[:, None]
        sequences = (source, target)[side]
        # what fills sequences up is at time 0; of a batch's empty slots the first is the surest
        since_zero_B1 = link.batch.elapsed_BSM[:, side, :1]
        there_BT = sequences.placed(torch.ones_like(sequences.elapsed_F)) > 0
        elapsed_BT = torch.where(there_BT, sequences.placed(sequences.elapsed_F), since_zero_B1)
        yield f"intermediate/0.time_encoder/call{2 * number + side}", model.time_encoding(elapsed_BT)[:, None]
    source_BT2 = counts_BT2[:, : link.source_length]
    encoded = sum(model.co_occurrence.encode(each.flatten()) for each in source_BT2.unbind(-1))
    assert isinstance(encoded, Tensor)
    module = "intermediate/0.neighbor_co_occurrence_encoder"
    yield f"{module}/call{number}", encoded.view(*source_BT2.shape[:2], -1)[:, None]
    tokens = model.tokens(link)
    x_BMK, share_B2M = tokens.x_ZMK, tokens.share_Z2M
    yield f"intermediate/0.transformers.0.input/call{number}", x_BMK[:, None]
    for layer, block in enumerate(model.blocks):
        x_BMK = block(x_BMK, None, Dropout())
        yield f"intermediate/0.transformers.{layer}/call{number}", x_BMK[:, None]
    for side, mean_BK in enumerate(torch.bmm(share_B2M, x_BMK).unbind(1)):
        yield f"intermediate/0.output_layer.input/call{2 * number + side}", mean_BK[:, None]


def _of_graphmixer(model: nn.Module, batch: LinkBatch) -> Calls:
    assert isinstance(model, GraphMixer)
    layers = [layer for layer in model.mixer.layers if isinstance(layer, MixerLayer)]
    with outputs_of([model.tokens, *(layer.tokens for layer in layers)]) as outputs:
        model.embed(batch)
    [[x_BSMK], *mixed] = outputs
    calls = {"projection_layer": x_BSMK}
    for number, (layer, [x_MZK]) in enumerate(zip(layers, mixed, strict=True)):
        x_ZMK = layer.channels(x_MZK, Dropout()).transpose(0, 1)
        calls[f"mlp_mixers.{number}"] = x_ZMK.reshape(x_BSMK.shape)
    for name, values_BSMK in calls.items():
        for call, end in enumerate(_SIDES):
            yield f"intermediate/0.{name}/call{call}", values_BSMK[:, [end]]


_PROBES: dict[str, Callable[[nn.Module, LinkBatch], Calls]] = {
    "tgat": _of_tgat,
    "cawn": _of_cawn,
    "dygformer": _of_dygformer,
    "graphmixer": _of_graphmixer,
}
_COMPARED: dict[str, tuple[str, ...]] = {
    "graphmixer": ("intermediate/0.projection_layer/", "intermediate/0.mlp_mixers."),
    "dygformer": ("intermediate/", "co_occurrence/"),
    "tgat": ("intermediate/0.temporal_conv_layers.", "intermediate/0.merge_layers."),
    "cawn": ("intermediate/0.walk_encoder.", "intermediate/0.position_encoder/", "landing_probabilities/"),
}
