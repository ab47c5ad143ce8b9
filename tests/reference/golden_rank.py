"""What a rank that has recorded the warm batches finds for each quantity of a golden file."""

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from tests.reference.golden_file import Array, GoldenFile
from tpnet_dist.distributed.blocks import even_borders
from tpnet_dist.distributed.exchange import Exchange
from tpnet_dist.memory.fetched_rows import FetchedRows
from tpnet_dist.memory.memory import Memory
from tpnet_dist.neighbors.build import EventChunk, build_neighbor_index
from tpnet_dist.neighbors.index import Neighbors
from tpnet_dist.neighbors.sharded import ShardedNeighbors


class WarmRank:
    """A rank after the warm batches. Every rank must ask for the same things in the same order."""

    def __init__(self, golden: GoldenFile, exchange: Exchange) -> None:
        self.golden, self.exchange = golden, exchange
        self.memory = memory = Memory(golden.num_nodes, golden.walk, int(golden["width"]), exchange=exchange)
        own = slice(memory.first_node, memory.stop_node)
        memory.table.rows_NLD[:, 0] = torch.from_numpy(golden["H0"][own])
        for batch in golden.warm_batches():
            for _ in memory.run([batch]):
                pass

    def share_of(self, count: int) -> slice:
        """This rank's part of `count` things; the parts of all ranks follow one another."""
        return slice(*even_borders(count, self.exchange.num_ranks)[self.exchange.rank :][:2])

    @cached_property
    def rows(self) -> Tensor:
        """Rows of this rank's share of the nodes, whoever owns them, at the recorded time."""
        nodes_N = torch.arange(self.golden.num_nodes)[self.share_of(self.golden.num_nodes)]
        return self._fetch(nodes_N).read(nodes_N, self._recorded_time(nodes_N))

    @cached_property
    def neighbors(self) -> Neighbors:
        """Of this rank's share of [src; dst; neg], whoever owns them."""
        golden, count = self.golden, int(self.golden["num_neighbors"])
        nodes_B = torch.cat([self._nodes(key) for key in ("query_src", "query_dst", "query_neg")])
        query_time_B = torch.from_numpy(np.tile(golden["query_time"], 3)).double()
        before_B = torch.searchsorted(torch.from_numpy(golden["time"]).double(), query_time_B)
        mine = self.share_of(len(nodes_B))
        return self._neighbor_index().recent(nodes_B[mine], before_B[mine], count=count)

    def neighbor_edge_ids(self) -> Array:
        """The published ids begin at 1; 0 is padding."""
        edges_BM = self.golden["edge_id"][self.neighbors.events_BM.numpy()]
        return np.where(self.neighbors.mask_BM.numpy(), edges_BM, 0)

    def pair_products(self) -> Array:
        """Inner products of src's and dst's layers: each row's own from the cache, those between computed."""
        mine = self.share_of(self.golden.num_queries)
        src_B, dst_B = self._nodes("query_src")[mine], self._nodes("query_dst")[mine]
        time_B = self._recorded_time(src_B)
        fetched = self._fetch(torch.cat([src_B, dst_B]))
        cross_BLL = torch.bmm(fetched.read(src_B, time_B), fetched.read(dst_B, time_B).transpose(1, 2))
        upper = torch.cat([own_products(fetched, src_B, time_B), cross_BLL], dim=2)
        lower = torch.cat([cross_BLL.transpose(1, 2), own_products(fetched, dst_B, time_B)], dim=2)
        return torch.cat([upper, lower], dim=1).flatten(1).numpy()

    def _fetch(self, nodes: Tensor) -> FetchedRows:
        return self.memory.look(nodes)

    def _recorded_time(self, nodes: Tensor) -> Tensor:
        return torch.full(nodes.shape, self.golden.recorded_time, dtype=torch.float64)

    def _nodes(self, key: str) -> Tensor:
        return torch.from_numpy(self.golden[key].astype(np.int64))

    def _neighbor_index(self) -> ShardedNeighbors:
        golden, memory = self.golden, self.memory
        src, dst = golden["src"].astype(np.int32), golden["dst"].astype(np.int32)
        log = EventChunk(src, dst, golden["time"].astype(np.float64), np.arange(len(src)))
        own = build_neighbor_index(lambda: [log], memory.first_node, memory.stop_node)
        return ShardedNeighbors(own, golden.num_nodes, self.exchange)


def own_products(fetched: FetchedRows, nodes_B: Tensor, time_B: Tensor) -> Tensor:
    """Inner products among the layers of each node's own row, read at `time`."""
    position_B = fetched.position_of(nodes_B)
    factors_BL = fetched.read_factors(position_B, time_B)
    return fetched.products_ULL[position_B] * factors_BL[:, :, None] * factors_BL[:, None]
