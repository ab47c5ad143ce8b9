"""What one batch needs of the exchange: its share of a run's plan, and what the owners were told.

Shape letters: U fetched nodes, A those asked for, G batches, P ranks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tpnet_dist.memory.fetch_plan import FetchPlan
from tpnet_dist.memory.plan import Bools
from tpnet_dist.memory.record_plan import RecordPlan
from tpnet_dist.memory.row_cache import CachePlan, CacheRun
from tpnet_dist.ranks.exchange import Exchange, ExchangeRoute

ID_BYTES = 8
"""Of a row that is asked for."""


@dataclass(frozen=True)
class MemoryPlan:
    """All that a batch needs of the exchange; made without touching the memory."""

    nodes_U: Tensor
    """The distinct nodes whose rows this rank gets, sorted."""
    clock_U: Tensor
    degree_U: Tensor | None
    """For walks that keep one."""
    route: ExchangeRoute
    """Of the rows asked for: all, or those that are not held."""
    served: Tensor
    """Rows that ranks ask of this one, as local ids, asker after asker."""
    own_U: slice
    """Where this rank's own rows lie."""
    cached: CachePlan | None
    """Where the other rows come from; None if all are asked for."""
    record: RecordPlan | None
    """None if the batch is only looked at."""
    turn: int
    """Plans are recorded in the order they were made."""


def plans_of(
    exchange: Exchange,
    fetch: FetchPlan,
    cached: CacheRun | None,
    records: Sequence[RecordPlan | None],
    turn: int,
    device: torch.device,
) -> list[MemoryPlan]:
    """One for each batch of a run, the first recorded at `turn`."""
    rows, rank = np.diff(fetch.batch_borders()).tolist(), exchange.rank
    nodes, clocks = (
        torch.from_numpy(column).to(device).split_with_sizes(rows) for column in (fetch.node_U, fetch.clock_U)
    )
    degrees: Sequence[Tensor | None] = [None] * len(rows)
    if fetch.degree_U is not None:
        degrees = torch.from_numpy(fetch.degree_U).to(device).split_with_sizes(rows)
    cache_plans: Sequence[CachePlan | None] = [None] * len(rows) if cached is None else cached.plans
    own_GP = (fetch.border_GP[:, rank : rank + 2] - fetch.border_GP[:, :1]).tolist()
    agreed = _agree(exchange, fetch, None if cached is None else cached.is_held_U, device)
    plans = []
    for batch, (route, served) in enumerate(agreed):
        plans.append(
            MemoryPlan(
                nodes_U=nodes[batch],
                clock_U=clocks[batch],
                degree_U=degrees[batch],
                route=route,
                served=served,
                own_U=slice(*own_GP[batch]),
                cached=cache_plans[batch],
                record=records[batch],
                turn=turn,
            )
        )
        turn += records[batch] is not None
    return plans


def _agree(
    exchange: Exchange, fetch: FetchPlan, is_held_U: Bools | None, device: torch.device
) -> list[tuple[ExchangeRoute, Tensor]]:
    """Tell the owners which rows are wanted, of all batches at once; what each asks of us, as local ids."""
    local_A, border_GP = fetch.local_U, fetch.border_GP
    if is_held_U is not None:
        local_A = local_A[~is_held_U]
        border_GP = np.append(0, (~is_held_U).cumsum())[border_GP]
    routes = exchange.routes(np.diff(border_GP))
    served = exchange.forward_all(routes, torch.from_numpy(local_A).to(device))
    return list(zip(routes, served, strict=True))
