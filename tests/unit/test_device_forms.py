"""A Triton kernel serves after a trial alone; each compiles for the GPUs it is for; rows never meet TF32."""

import logging
import os
import subprocess
import sys

import pytest
import torch

from tests.support.command_line import ROOT
from tests.support.triton_here import needs_triton
from tpnet_dist.device_forms import in_full_float32, let_products_use_tf32, passes_trial, triton_is_there

CPU = torch.device("cpu")
COMPILE = """
import sys, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from tpnet_dist.memory.triton_record import add_terms, weigh_terms, write_sums
from tpnet_dist.models.tpnet.triton_pairs import pair_kernel

whole = "rows terms sums receivers own_terms own_sums width"
places = "places indices own_layers borrowed_layers firsts receiver_places to_own to_borrowed"
places += " nodes first_slots second_slots"
doubles = "clocks degrees weights rates nows divides new_clocks gains"
columns = {"COLUMNS": 256}
kernels = (
    (weigh_terms, "factors", {"TERMS": 128, "DIVIDES": True}),
    (add_terms, "factors", {**columns, "GATHERED": True, "DIVIDES": True}),
    (write_sums, "", columns),
    (pair_kernel, "", {**columns, "LAYERS": 4, "ROOM": 4, "SCALE": True}),
)
for kernel, further_doubles, constants in kernels:
    # what is a number for others is a table for pairs
    numbers = whole.replace("rows", "") if kernel is pair_kernel else whole
    for capability, element in ((70, "fp32"), (86, "fp32"), (90, "fp64")):
        kinds = {
            **dict.fromkeys(numbers.split(), "i32"),
            **dict.fromkeys(places.split(), "*i64"),
            **dict.fromkeys((*doubles.split(), further_doubles), "*fp64"),
            "rate": "fp32",
            **dict.fromkeys(constants, "constexpr"),
        }
        signature = {name: kinds.get(name, f"*{element}") for name in kernel.arg_names}
        source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
        made = triton.compile(source, target=GPUTarget("cuda", capability, 32))
        print(kernel.__name__, capability, element, len(made.asm["cubin"]) > 0)
"""


@needs_triton
def test_triton_makes_machine_code_of_every_kernel_for_volta_ampere_and_hopper() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", COMPILE]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=250)
    lines = done.stdout.splitlines()
    assert len(lines) == 12, done.stderr
    assert all(line.endswith("True") for line in lines)


@needs_triton
def test_triton_kernels_pass_their_trials() -> None:
    from tpnet_dist.memory import triton_record
    from tpnet_dist.models.tpnet import triton_pairs

    for trial in (triton_record.trial, triton_pairs.trial):
        assert trial(CPU) < 1e-6
        assert passes_trial(trial, CPU)


def test_the_host_takes_no_kernel() -> None:
    assert not triton_is_there(CPU)


@pytest.mark.parametrize(("difference", "passes"), [(1e-7, True), (1e-3, False), (float("nan"), False)])
def test_a_kernel_that_differs_is_left_alone(
    difference: float, passes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert passes_trial(lambda device: difference, CPU) == passes
    assert bool(caplog.messages) != passes


def test_a_kernel_that_does_not_compile_is_tried_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tried = []

    def trial(device: torch.device) -> float:
        tried.append(device)
        raise RuntimeError("no compiler\nat some place")

    with caplog.at_level(logging.WARNING):
        assert not any(passes_trial(trial, CPU) for _ in range(3))
    assert tried == [CPU]
    assert caplog.messages == ["a Triton kernel is not used: RuntimeError: no compiler"]


def test_products_of_rows_are_kept_from_tf32() -> None:
    setting = torch.backends.cuda.matmul
    before = setting.fp32_precision
    try:
        let_products_use_tf32(True)
        with in_full_float32():
            assert setting.fp32_precision == "ieee"
        assert setting.fp32_precision == "tf32"
        let_products_use_tf32(False)
        with in_full_float32():
            assert setting.fp32_precision == "ieee"
        assert setting.fp32_precision == "ieee"
    finally:
        setting.fp32_precision = before
