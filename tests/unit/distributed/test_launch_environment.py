"""Streams of a GPU get queues of their own, unless somebody chose otherwise."""

import os

import pytest

from tpnet_dist.distributed.world import join_world

QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"


def test_each_stream_gets_a_queue_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(QUEUES, "")  # so that what the code sets is taken back
    monkeypatch.delenv(QUEUES)
    with join_world():
        pass
    assert os.environ[QUEUES] == "32"


def test_a_number_of_queues_that_was_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(QUEUES, "8")
    with join_world():
        pass
    assert os.environ[QUEUES] == "8"
