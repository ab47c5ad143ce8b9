"""Python imports this first in every process of `python -m tests.support.emulated_cuda`, ranks included.

Where GPUs are hidden, as for ranks that are to use the CPU, nothing is emulated.
"""

import os

if os.environ.get("CUDA_VISIBLE_DEVICES") != "":
    from tests.support.emulated_cuda.library import loaded

    loaded()
    from tests.support.emulated_cuda.torch_cuda import install

    install().__enter__()
