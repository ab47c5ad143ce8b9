"""Dealt ids are a permutation whose contiguous blocks carry about equal degree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.dense_ids import assign_dense_ids


def block_degrees(degree: np.ndarray, num_blocks: int) -> np.ndarray:
    by_dense_id = np.empty_like(degree)
    by_dense_id[assign_dense_ids(degree)] = degree
    return np.array([block.sum() for block in np.array_split(by_dense_id, num_blocks)])


def zipf_degrees(num_nodes: int, offset: int) -> np.ndarray:
    degree = 10**7 // (offset + np.arange(num_nodes))
    return np.random.default_rng(0).permutation(degree)


def test_eight_nodes_are_dealt_in_snakes_within_snakes():
    falling = np.array([80, 70, 60, 50, 40, 30, 20, 10])
    assert assign_dense_ids(falling).tolist() == [0, 4, 6, 2, 3, 7, 5, 1]
    for num_blocks in (2, 4):
        assert len(set(block_degrees(falling, num_blocks))) == 1


def test_nodes_of_equal_degree_are_dealt_by_code():
    assert assign_dense_ids(np.full(8, 5)).tolist() == [0, 4, 6, 2, 3, 7, 5, 1]


@given(st.lists(st.integers(0, 2**40), max_size=200))
def test_dense_ids_are_a_permutation(degrees):
    dense_ids = assign_dense_ids(np.array(degrees, dtype=np.int64))
    assert sorted(dense_ids.tolist()) == list(range(len(degrees)))


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=200), st.sampled_from([2, 4, 8]))
def test_power_of_two_blocks_of_whole_rounds_differ_by_less_than_the_heaviest_node(degrees, num_blocks):
    degree = np.array(degrees * 8)
    assert np.ptp(block_degrees(degree, num_blocks)) <= degree.max()


@pytest.mark.parametrize("num_blocks", [2, 3, 4, 7, 8])
@pytest.mark.parametrize(("num_nodes", "offset"), [(1000, 9), (5000, 9), (99_999, 2), (131_072, 9)])
def test_blocks_of_zipf_degrees_are_balanced(num_nodes, offset, num_blocks):
    degree = zipf_degrees(num_nodes, offset)
    assert degree.max() < degree.sum() / 16
    blocks = block_degrees(degree, num_blocks)
    assert blocks.max() - blocks.mean() < degree.max()
    if offset > 2:
        assert blocks.max() < 1.1 * blocks.mean()
