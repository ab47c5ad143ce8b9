"""Whether DeepSpeed can be used here."""

import importlib.util

import pytest

needs_deepspeed = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None, reason="DeepSpeed is not installed"
)
