"""Rows reach their owners and come back, on real ranks, with numbers small enough to follow by hand."""

import pytest
import torch
from torch import Tensor

from benchmarks.rank_pool import RankPools
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.distributed.exchange import ExchangeRoute, LocalExchange, RankExchange, pack, unpack
from tpnet_dist.distributed.world import World


def ask_for_rows(world: World, asked: list[list[int]]) -> tuple[RankExchange, ExchangeRoute, Tensor, Tensor]:
    """Eight rows; row r is (r, r + 0.5)."""
    exchange, blocks = world.new_exchange(), Blocks(8, world.num_ranks)
    ids = torch.tensor(asked[world.rank], dtype=torch.int64)
    route = exchange.route(blocks.counts_by_owner(ids))
    [served] = exchange.forward(route, [ids])
    [rows] = exchange.back(route, [torch.stack([served, served + 0.5], dim=1)])
    return exchange, route, served, rows


def docstring_example(world: World) -> tuple[list[int], list[int], list[int], list[list[float]]]:
    _, route, served, rows = ask_for_rows(world, [[1, 4, 6], [0, 1]])
    return route.send_counts, route.recv_counts, served.tolist(), rows.tolist()


def test_two_ranks_ask_as_in_the_docstring(rank_pools: RankPools) -> None:
    one, two = rank_pools[2].run(docstring_example)
    assert one == ([1, 2], [1, 2], [1, 0, 1], [[1, 1.5], [4, 4.5], [6, 6.5]])
    assert two == ([2, 0], [2, 0], [4, 6], [[0, 0.5], [1, 1.5]])


def costs_of_asking(world: World, asked: list[list[int]]) -> tuple[int, int, int]:
    stats = ask_for_rows(world, asked)[0].stats
    return stats.bytes_sent, stats.bytes_received, stats.collectives


def test_bytes_count_what_crosses_between_ranks(rank_pools: RankPools) -> None:
    """An id takes 8 bytes, a row of two float32 also 8; what a rank asks of itself is free."""
    # Rank 0 asks rank 1 for two rows, rank 1 asks rank 0 for two: ids out, rows out, for both.
    assert rank_pools[2].run(costs_of_asking, [[1, 4, 6], [0, 1]]) == [(32, 32, 3), (32, 32, 3)]
    # Rank 0 asks for three rows and gives none: 24 bytes of ids go one way, 24 bytes of rows the other.
    assert rank_pools[2].run(costs_of_asking, [[4, 5, 7], [6]]) == [(24, 24, 3), (24, 24, 3)]
    # Each asks only for what it owns.
    assert rank_pools[2].run(costs_of_asking, [[0, 3], [5]]) == [(0, 0, 3), (0, 0, 3)]
    # Three ranks, rows 0–2 | 3–5 | 6 7: rank 2 asks rank 0 for one row and rank 1 for two.
    assert rank_pools[3].run(costs_of_asking, [[], [], [0, 3, 4, 7]]) == [(8, 8, 3), (16, 16, 3), (24, 24, 3)]


def rows_asked_of_everybody(world: World, asked: list[list[int]]) -> tuple[list[int], list[float]]:
    _, _, served, rows = ask_for_rows(world, asked)
    return served.tolist(), rows[:, 0].tolist()


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param([[0, 1, 2, 3, 4, 5, 6, 7], [7], [0, 4], []], id="uneven"),
        pytest.param([[], [2, 5], [], [0]], id="some-ask-nothing"),
        pytest.param([[5], [5], [5], [5]], id="all-ask-one-owner"),
        pytest.param([[], [], [], []], id="nobody-asks"),
    ],
)
def test_everybody_gets_what_he_asked_for(
    rank_pools: RankPools, num_ranks: int, asked: list[list[int]]
) -> None:
    results = rank_pools[num_ranks].run(rows_asked_of_everybody, asked)
    assert [rows for _, rows in results] == asked[:num_ranks]
    owned = [range(*Blocks(8, num_ranks).range_of(rank)) for rank in range(num_ranks)]
    for (served, _), own in zip(results, owned, strict=True):
        assert served == [row for wanted in asked[:num_ranks] for row in wanted if row in own]


def mixed_columns(count: int, start: int) -> list[Tensor]:
    """27 bytes in a row, so that no column of a second row begins at a multiple of its size."""
    number = torch.arange(start, start + count)
    return [
        number[:, None].expand(-1, 3).to(torch.bfloat16) / 4,
        number.double() * 1e300,
        number % 2 == 0,
        (number * 2**40)[:, None],
        number.float()[:, None, None].expand(-1, 1, 1) * 0.1,
    ]


def send_mixed_columns(world: World, counts: list[list[int]]) -> list[Tensor]:
    exchange = world.new_exchange()
    route = exchange.route(counts[world.rank])
    columns = mixed_columns(sum(counts[world.rank]), start=10 * world.rank)
    there = exchange.forward(route, columns)
    again = exchange.back(route, there)
    assert all(torch.equal(one, two) for one, two in zip(columns, again, strict=True))
    assert exchange.stats.collectives == 3, "all columns of a row travel in one collective"
    return there


def test_columns_of_any_type_travel_side_by_side_and_come_back_to_the_bit(rank_pools: RankPools) -> None:
    """Rank 0 sends its rows 0 | 1 2 | , rank 1 | | 10, rank 2 20 21 22 | 23 | ."""
    found = rank_pools[3].run(send_mixed_columns, [[1, 2, 0], [0, 0, 1], [3, 1, 0]])
    for columns, numbers in zip(found, [[0, 20, 21, 22], [1, 2, 23], [10]], strict=True):
        expected = [torch.cat(parts) for parts in zip(*(mixed_columns(1, n) for n in numbers), strict=True)]
        for column, wanted in zip(columns, expected, strict=True):
            assert column.dtype == wanted.dtype
            assert torch.equal(column, wanted)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_packing_loses_nothing(count: int) -> None:
    columns = mixed_columns(count, start=3)
    packed = pack(columns)
    assert packed.shape == (count, 6 + 8 + 1 + 8 + 4)
    for column, again in zip(columns, unpack(packed, columns), strict=True):
        assert torch.equal(column, again)


def trade_bytes(world: World) -> tuple[list[int], list[int]]:
    """Rank r has r + 1 bytes for each rank, all of them r; once they are waited for at once, once later."""
    exchange, ranks = world.new_exchange(), range(world.num_ranks)
    route = exchange.route([world.rank + 1] * world.num_ranks)
    message = torch.full((world.num_ranks * (world.rank + 1),), world.rank, dtype=torch.uint8)
    sent = exchange.send(message, route.send_counts, route.recv_counts)
    arrived = exchange.trade(message, route.send_counts, route.recv_counts)
    assert torch.equal(sent.wait(), arrived)
    assert exchange.stats.bytes_sent == 2 * (world.num_ranks - 1) * (world.rank + 1)
    assert exchange.stats.bytes_received == 2 * (sum(rank + 1 for rank in ranks) - (world.rank + 1))
    return route.recv_counts, arrived.tolist()


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
def test_ranks_trade_bytes(num_ranks: int, rank_pools: RankPools) -> None:
    ranks = range(num_ranks)
    wanted = [rank + 1 for rank in ranks], [rank for rank in ranks for _ in range(rank + 1)]
    assert rank_pools[num_ranks].run(trade_bytes) == [wanted] * num_ranks


def test_the_local_twin_gives_back_what_it_is_asked() -> None:
    exchange, rows = LocalExchange(), torch.arange(6.0).view(3, 2)
    route = exchange.route([3])
    assert route == ExchangeRoute([3], [3])
    assert torch.equal(exchange.back(route, exchange.forward(route, [rows]))[0], rows)
    message = torch.arange(3, dtype=torch.uint8)
    assert torch.equal(exchange.trade(message, [3], [3]), message)
    assert torch.equal(exchange.send(message, [3], [3]).wait(), message)
    assert (exchange.stats.bytes_sent, exchange.stats.collectives) == (0, 0)
