"""How much memory a process takes that has all of a trainer but data: prints the bytes."""

import torch

import tpnet_dist.events.reader  # noqa: F401 — with what reads data
from tpnet_dist.config import Config
from tpnet_dist.peak_memory import peak_bytes
from tpnet_dist.planning.log_shape import LogShape
from tpnet_dist.planning.model_cost import few_events
from tpnet_dist.ranks.host_memory import keep_large_buffers
from tpnet_dist.ranks.world import join_world
from tpnet_dist.training.run_model import build_engine, model_for
from tpnet_dist.training.train_step import links_loss, split_logits


def main() -> None:
    keep_large_buffers()
    torch.set_num_threads(1)
    config, log = Config(), LogShape.random(1000)
    with join_world() as world:
        model = model_for(config, node_width=0, edge_width=0).to(world.device)
        engine = build_engine(config, model, world)
        with engine.batch(is_last=True):
            [logits] = engine.score([[few_events(config, log, 2)]])
            positive, negative = split_logits(logits)
            engine.learn(links_loss(positive, negative))
        engine.step()
    print(peak_bytes())


if __name__ == "__main__":
    main()
