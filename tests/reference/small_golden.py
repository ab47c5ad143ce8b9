"""A small golden file recorded by the literal algorithms, for where the published numbers are absent."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from reference.literal import LiteralMemory
from reference.literal_model import LiteralTPNet, literal_links
from tests.reference.golden_queries import Arrays, query_of
from tpnet_dist.models.tpnet.published_names import PublishedSizes

NUM_EVENTS, NUM_NODES, BATCH_SIZE, WARM_BATCHES, NUM_STEPS, NUM_NEIGHBORS = 60, 10, 6, 5, 4, 3


def small_golden(
    *,
    hops: int = 2,
    width: int = 5,
    decay: float = 1e-8,
    first_time: float = 1.3e9,
    feature_width: int = 0,
    padded_width: int = 8,
    with_model: bool = True,
) -> Arrays:
    """60 events of 9 nodes and a padding node, 30 of them warm, 24 trained on.

    `padded_width`: of features in the weights, absent ones too; `feature_width`: of those of the file.
    """
    draw = np.random.default_rng(1)
    src, dst = draw.integers(1, NUM_NODES, (2, NUM_EVENTS))
    time = first_time + np.sort(draw.integers(0, NUM_EVENTS // 2, NUM_EVENTS)) * 1e6
    projection = (draw.standard_normal((NUM_NODES, width)) / width**0.5).astype(np.float32)
    arrays: Arrays = {"src": src, "dst": dst, "time": time, "edge_id": np.arange(1, NUM_EVENTS + 1)}
    arrays |= {"decay": decay, "batch_size": BATCH_SIZE, "num_neighbors": NUM_NEIGHBORS, "hops": hops}
    arrays |= {"width": width, "H0": projection, "warm_batches": WARM_BATCHES}
    if feature_width:
        for key, num_rows in (("edge_features", NUM_EVENTS + 1), ("node_features", NUM_NODES)):
            arrays[key] = draw.standard_normal((num_rows, feature_width)).astype(np.float32)
            arrays[key][0] = 0
    memory = LiteralMemory(NUM_NODES, width, hops, decay, "decay", torch.from_numpy(projection))
    for batch in range(WARM_BATCHES):
        record(memory, arrays, batch)
    arrays["memory_time_after_warm"] = memory.time
    arrays |= asked_of(memory, arrays, WARM_BATCHES, draw.integers(1, NUM_NODES, BATCH_SIZE))
    both = np.concatenate([rows_of(memory)[arrays[f"query_{end}"]] for end in ("src", "dst")], axis=1)
    arrays["raw_pair_features_src_dst"] = (both @ both.transpose(0, 2, 1)).reshape(BATCH_SIZE, -1)
    negatives = draw.integers(1, NUM_NODES, (NUM_STEPS, BATCH_SIZE))
    return arrays | modelled(memory, arrays, negatives, padded_width) if with_model else arrays


# ---- the memory and who met whom ---------------------------------------------------------------------------


def events_of(arrays: Arrays, batch: int) -> list[Tensor]:
    here = slice(batch * BATCH_SIZE, (batch + 1) * BATCH_SIZE)
    return [torch.from_numpy(arrays[name][here]) for name in ("src", "dst", "time")]


def record(memory: LiteralMemory, arrays: Arrays, batch: int) -> None:
    memory.record(*events_of(arrays, batch))


def rows_of(memory: LiteralMemory) -> np.ndarray:
    """At the last recorded time."""
    return memory.rows_at(memory.time).numpy()


def asked_of(memory: LiteralMemory, arrays: Arrays, batch: int, negatives: np.ndarray) -> Arrays:
    """A batch as a golden file has its query batch: rows before it, ends, neighbours."""
    rows_NLD = rows_of(memory)
    src, dst, time = (column.numpy() for column in events_of(arrays, batch))
    layers = {f"memory_after_warm_layer{hop}": rows_NLD[:, hop] for hop in range(1, rows_NLD.shape[1])}
    queries = {"query_src": src, "query_dst": dst, "query_neg": negatives, "query_time": time}
    return layers | queries | neighbors_of(arrays, [*src, *dst, *negatives], [*time] * 3)


def neighbors_of(arrays: Arrays, nodes: list[int], times: list[float]) -> Arrays:
    """The last three entries strictly before, looked for one by one; an event gives one at each end."""
    found = []
    for node, before in zip(nodes, times, strict=True):
        events = zip(arrays["src"], arrays["dst"], arrays["edge_id"], arrays["time"], strict=True)
        met = [
            (other, edge, time)
            for src, dst, edge, time in events
            for end, other in ((src, dst), (dst, src))
            if end == node and time < before
        ]
        found.append(([(0, 0, 0.0)] * NUM_NEIGHBORS + met)[-NUM_NEIGHBORS:])
    columns = [np.array([[slot[place] for slot in slots] for slots in found]) for place in range(3)]
    return dict(zip(("neighbor_ids", "neighbor_edge_ids", "neighbor_times"), columns, strict=True))


# ---- the model ---------------------------------------------------------------------------------------------


def modelled(memory: LiteralMemory, arrays: Arrays, negatives: np.ndarray, padded_width: int) -> Arrays:
    """Weights, what they make of the query batch, and training; the memory goes on to its end."""
    sizes = PublishedSizes(
        hops=int(arrays["hops"]),
        neighbors=NUM_NEIGHBORS,
        node_width=padded_width,
        edge_width=padded_width,
        time_width=6,
        channels=padded_width,
        mixer_layers=1,
        use_memory=True,
    )
    torch.manual_seed(0)
    model = LiteralTPNet(sizes)
    weights = {f"weights/{name}": tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    scored = scores_of(model, sizes, arrays)
    losses = train(model, sizes, memory, arrays, negatives)
    return weights | scored | {"train_losses": np.array(losses), "train_negatives": negatives}


@torch.no_grad()
def scores_of(model: LiteralTPNet, sizes: PublishedSizes, arrays: Arrays) -> Arrays:
    query, found = query_of(arrays), {}
    for target, link in enumerate(("positive", "negative")):
        links = literal_links(query, target, sizes)
        found[f"{link}_src_embedding"], found[f"{link}_dst_embedding"] = model.embed(links).unbind(1)
        found[f"{link}_logits"] = model(links)
        if not target:
            found["pair_features_src_dst"] = model.pair_features(*links.rows_X2LD.unbind(1))
    return {key: tensor.numpy() for key, tensor in found.items()}


def train(
    model: LiteralTPNet, sizes: PublishedSizes, memory: LiteralMemory, arrays: Arrays, negatives: np.ndarray
) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    losses = []
    for step in range(NUM_STEPS):
        query = query_of(arrays | asked_of(memory, arrays, WARM_BATCHES + step, negatives[step]))
        logits_X = torch.cat([model(literal_links(query, target, sizes)) for target in (0, 1)])
        labels_X = torch.ones(2 * BATCH_SIZE)
        labels_X[BATCH_SIZE:] = 0
        loss = F.binary_cross_entropy_with_logits(logits_X, labels_X)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        record(memory, arrays, WARM_BATCHES + step)
    return losses
