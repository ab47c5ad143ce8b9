"""Neighbour look-ups for any node: queries go to the node's owner, answers come back.

    1. order    queries by owner
    2. forward  node, bound and query number to the owners
    3. answer   each owner from its index
    4. back     the answers, put in the order of the queries

Needs no row of the memory, so it is planned ahead.
"""

import torch
from torch import Tensor

from tpnet_dist.distributed.blocks import Blocks, check_nodes
from tpnet_dist.distributed.exchange import Exchange
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.neighbors.index import NeighborIndex, NeighborLookup, Neighbors
from tpnet_dist.neighbors.samplers import Queries, Sampler


class ShardedNeighbors(NeighborLookup):
    """The twin of `NeighborIndex` whose nodes are spread over the ranks; every rank must take part."""

    def __init__(self, index: NeighborIndex, num_nodes: int, exchange: Exchange) -> None:
        self.index, self.exchange = index, exchange
        self.blocks = Blocks(num_nodes, exchange.num_ranks)

    def sample(self, queries: Queries, sampler: Sampler, *, count: int, key: SampleKey) -> Neighbors:
        check_nodes(queries.node_B, self.blocks.num_rows, "neighbour query {row}: id")
        # 1. order
        order_B = torch.argsort(queries.node_B, stable=True)
        ordered = [column[order_B] for column in queries.columns()]
        route = self.exchange.route(self.blocks.counts_by_owner(ordered[0]))
        # 2. forward
        asked = queries.with_columns(self.exchange.forward(route, ordered))
        # 3. answer
        found = self.index.sample(asked, sampler, count=count, key=key)
        # 4. back
        columns = [found.ids_BM, found.events_BM, found.times_BM, found.mask_BM]
        answers = self.exchange.back(route, columns)
        return Neighbors(*(torch.empty_like(column).index_copy_(0, order_B, column) for column in answers))

    def longest(self, queries: Queries, group_B: Tensor, num_groups: int) -> Tensor:
        """Return the longest history of each group of queries on all ranks: owners tell all ranks what they
        find."""
        # 1. order
        order_B = torch.argsort(queries.node_B, stable=True)
        ordered = [column[order_B] for column in (*queries.columns(), group_B)]
        route = self.exchange.route(self.blocks.counts_by_owner(ordered[0]))
        # 2. forward
        *asked, of_group_B = self.exchange.forward(route, ordered)
        # 3. answer
        found = self.index.longest(queries.with_columns(asked), of_group_B, num_groups)
        # 4. to all
        num_ranks = self.exchange.num_ranks
        to_all = self.exchange.route([num_groups] * num_ranks)
        [told] = self.exchange.forward(to_all, [found.repeat(num_ranks)])
        return told.view(num_ranks, num_groups).amax(0)
