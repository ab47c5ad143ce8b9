"""Rows reach their owners and come back, on real ranks, with numbers small enough to follow by hand."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.rank_pool import RankPools
from tpnet_dist.ranks.blocks import Blocks
from tpnet_dist.ranks.exchange import ExchangeRoute, LocalExchange, RankExchange, pack, unpack
from tpnet_dist.ranks.world import World


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
    account = ask_for_rows(world, asked)[0].account
    return account.bytes_sent, account.bytes_received, account.collectives


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
    assert exchange.account.collectives == 3, "all columns of a row travel in one collective"
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


def ask_several_times(world: World, asked: list[list[list[int]]]) -> tuple[list[list[int]], int, int]:
    """All trips at once: what each brings, collectives and bytes; one by one it is the same."""
    exchange, blocks = world.new_exchange(), Blocks(8, world.num_ranks)
    trips = [torch.tensor(trip[world.rank], dtype=torch.int64) for trip in asked]
    counts_GP = np.array([blocks.counts_by_owner(ids) for ids in trips])
    routes = exchange.routes(counts_GP)
    brought = exchange.forward_all(routes, torch.cat(trips))
    together = exchange.account.collectives, exchange.account.bytes_sent
    for route, ids, served in zip(routes, trips, brought, strict=True):
        assert exchange.route(route.send_counts) == route
        assert torch.equal(exchange.forward(route, [ids])[0], served)
    return [served.tolist() for served in brought], *together


def test_several_trips_in_one_bring_what_each_would_bring_alone(rank_pools: RankPools) -> None:
    """Rows 0–3 | 4–7: two trips, and one between them on which nobody has anything to ask."""
    trips = [[[1, 4, 6], [0, 1]], [[], []], [[5], [2, 7]]]
    one, two = rank_pools[2].run(ask_several_times, trips)
    # ids of three rows go from rank 0 to rank 1, and of three the other way: 8 bytes each
    assert one == ([[1, 0, 1], [], [2]], 2, 24)
    assert two == ([[4, 6], [], [5, 7]], 2, 24)


@pytest.mark.parametrize("num_ranks", [1, 3, 4])
def test_trips_in_one_do_not_mix_on_any_number_of_ranks(num_ranks: int, rank_pools: RankPools) -> None:
    trips = [[[(rank + trip) % 8] for rank in range(num_ranks)] for trip in range(5)]
    found = rank_pools[num_ranks].run(ask_several_times, trips)
    per_rank = -(-8 // num_ranks)
    for rank, (brought, _, _) in enumerate(found):
        for trip, served in zip(trips, brought, strict=True):
            assert served == [ids[0] for ids in trip if ids[0] // per_rank == rank]


def test_the_local_twin_gives_back_what_it_is_asked() -> None:
    exchange, rows = LocalExchange(), torch.arange(6.0).view(3, 2)
    route = exchange.route([3])
    assert route == ExchangeRoute([3], [3])
    assert torch.equal(exchange.back(route, exchange.forward(route, [rows]))[0], rows)
    assert torch.equal(
        torch.cat(list(exchange.forward_all(exchange.routes(np.array([[1], [2]])), rows))), rows
    )
    assert (exchange.account.bytes_sent, exchange.account.collectives) == (0, 0)
