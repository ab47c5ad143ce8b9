"""What a process took is its own: not what the one that started it has."""

import subprocess

import pytest

from benchmarks.measured_process import run_python
from benchmarks.measuring import MIB


def test_a_small_process_of_a_large_one_is_small() -> None:
    held = bytearray(300 * MIB)
    small = run_python("-c", "print('done')")
    large = run_python("-c", f"held = b'1' * {100 * MIB}")
    assert len(held) == 300 * MIB
    assert small.output == "done\n"
    assert small.peak_bytes < 100 * MIB < large.peak_bytes < 200 * MIB


def test_a_module_is_run_with_its_args() -> None:
    assert run_python("-m", "base64", "-t").output.startswith("b'Aladdin")


def test_what_fails_is_an_error_with_its_exit_code() -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run_python("-c", "raise SystemExit(7)")
    assert failed.value.returncode == 7
