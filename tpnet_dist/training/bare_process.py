"""Prints how many bytes of memory a process takes that has all of a trainer but data."""

import torch

import tpnet_dist.events.reader  # noqa: F401 — with what reads data
from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.host_memory import keep_large_buffers
from tpnet_dist.distributed.peak_memory import peak_bytes
from tpnet_dist.distributed.world import join_world
from tpnet_dist.models.common.loss import links_loss, split_logits
from tpnet_dist.models.registry import spec_of
from tpnet_dist.sizing.model_cost import few_events
from tpnet_dist.training.run_model import build_engine


def main() -> None:
    keep_large_buffers()
    torch.set_num_threads(1)
    config, log = Config(), LogShape.random(1000)
    with join_world() as world:
        model = spec_of(config).make(config, log).to(world.device)
        engine = build_engine(config, model, world)
        with engine.batch(is_last=True):
            [logits] = engine.score([[few_events(config, log, 2)]])
            positive, negative = split_logits(logits)
            engine.learn(links_loss(positive, negative))
        engine.step()
    print(peak_bytes())


if __name__ == "__main__":
    main()
