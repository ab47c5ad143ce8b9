"""Triton's kernels run in tests on tensors of the host, by Triton's interpreter."""

import os
from importlib.util import find_spec

import pytest


def _reason() -> str:
    if find_spec("triton") is None:
        return "Triton is not installed; `make test-triton` installs it and runs these tests"
    if os.environ.get("TRITON_INTERPRET") != "1":
        return "Triton's kernels need its interpreter here; `make test-triton` runs these tests"
    return ""


needs_triton = pytest.mark.skipif(bool(_reason()), reason=_reason())
