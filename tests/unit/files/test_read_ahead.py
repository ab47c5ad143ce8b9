"""Reading ahead keeps order, raises in order and leaves no thread behind."""

import threading
import time
from itertools import count

import pytest

from tpnet_dist.files.read_ahead import read_ahead


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_read_ahead_keeps_order_and_raises_after_the_items_before_the_error(depth):
    def items():
        yield from range(5)
        raise OSError("disk gone")

    ahead = read_ahead(items(), depth)
    assert [next(ahead) for _ in range(5)] == list(range(5))
    with pytest.raises(OSError, match="disk gone"):
        next(ahead)


def test_read_ahead_stops_its_thread_when_the_consumer_leaves():
    threads = threading.active_count()
    ahead = read_ahead(count(), 2)
    assert [next(ahead), next(ahead)] == [0, 1]
    assert threading.active_count() == threads + 1
    ahead.close()
    assert threading.active_count() == threads


def test_read_ahead_stops_its_thread_at_the_end_and_after_an_error():
    threads = threading.active_count()
    assert list(read_ahead(range(10), 2)) == list(range(10))
    with pytest.raises(ZeroDivisionError):
        list(read_ahead((1 // (3 - number) for number in range(9)), 2))
    assert threading.active_count() == threads


def test_read_ahead_prepares_no_more_than_its_depth():
    prepared = []
    ahead = read_ahead((prepared.append(number) or number for number in count()), 2)
    next(ahead)
    time.sleep(0.3)
    # one taken, two waiting, one held by the thread that waits for room
    assert len(prepared) <= 4
    ahead.close()


def test_a_thread_that_is_to_fill_up_stops_at_the_same_item_whenever_the_consumer_leaves():
    for pause in (0.0, 0.2):
        prepared = []

        def slow_items(prepared=prepared):
            for number in count():
                time.sleep(0.02)
                prepared.append(number)
                yield number

        ahead = read_ahead(slow_items(), 3, fill_on_exit=True)
        next(ahead)
        time.sleep(pause)
        ahead.close()
        # one taken, three waiting, one held by the thread that waits for room
        assert len(prepared) == 5
