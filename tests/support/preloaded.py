"""Imports all that commands and ranks do, also what they import only while they train: some four seconds.

Whoever imports this and then forks spares its children that. What it holds is frozen: else each collection of
garbage in each child would look through it, and copy it.
"""

import gc
import importlib

from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.walks import Walk

for _name in (
    "benchmarks.rank_pool",
    "tpnet_dist.prediction.predictor",
    "tpnet_dist.training.run",
    "tpnet_dist.training.step_metadata",
    # by torch, where gradients are shared; by us, where metrics are written
    "torch._dynamo",
    "torch.utils.tensorboard",
):
    importlib.import_module(_name)
# makes numba ready for compiled functions, for which it loads parts of scipy
Memory(2, Walk("decay", hops=1, decay=1e-3), 2)
gc.collect()
gc.freeze()
