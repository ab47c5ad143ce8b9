"""What users are told is one line of text, whatever their files say."""

import errno
import io
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest
from rich.console import Console

from tests.support.command_line import ROOT
from tpnet_dist.errors import InputError, correctable, lacks_memory, printable, sentence_of
from tpnet_dist.files.progress import BarDisplay


def test_commands_to_a_terminal_are_shown_and_not_obeyed() -> None:
    hostile = "id \x1b[31mred\x1b]0;title\x07 \u202eback; correct it"
    shown = sentence_of(InputError(hostile))
    assert shown == r"id \x1b[31mred\x1b]0;title\x07 \u202eback; correct it"
    assert printable("é 東京 \ud800") == r"é 東京 \ud800"


def test_brackets_in_names_are_no_markup() -> None:
    out = io.StringIO()
    BarDisplay(Console(file=out, width=200)).say("[red]runs/one[/red] is \x1b[31m there")
    assert out.getvalue() == "[red]runs/one[/red] is \\x1b[31m there\n"


UNMAPPED = "libtorch_cpu.so: failed to map segment from shared object"


def hidden(behind: Exception) -> Exception:
    """An error raised while another was handled, as llvmlite does."""
    try:
        try:
            raise behind
        except OSError:
            raise OSError("Could not find/load shared object file") from None
    except OSError as error:
        return error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        pa.ArrowMemoryError("malloc of size 9 failed"),
        ImportError(UNMAPPED),
        hidden(OSError(UNMAPPED)),
        OSError(errno.ENOMEM, "Cannot allocate memory", "torch"),
        RuntimeError("can't start new thread"),
    ],
)
def test_memory_that_runs_out_is_one_sentence(error: Exception) -> None:
    sentence = sentence_of(error)
    assert "not enough memory" in sentence and "; free some" in sentence
    assert sentence_of(correctable(error) or RuntimeError()) == sentence


def test_what_users_cannot_correct_is_a_defect() -> None:
    assert correctable(RuntimeError("shapes do not fit")) is None
    assert correctable(ImportError("no module named torch")) is None


def test_a_lack_of_memory_while_a_command_is_imported_is_one_line() -> None:
    code = "import sys; sys.argv = ['/usr/bin/tpnet']; import tpnet_dist; "
    code += f"raise ImportError({UNMAPPED!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, f"tpnet: error: {sentence_of(ImportError(UNMAPPED))}\n")


@pytest.mark.parametrize(
    ("module", "script", "name"),
    [
        ("data_prep", "-m", "python -m data_prep"),
        ("tpnet_dist.report", "-m", "python -m tpnet_dist.report"),
        ("tpnet_dist", "/usr/bin/tpnet", "tpnet"),
        ("data_prep", "/usr/bin/tpnet-data-prep", "tpnet-data-prep"),
    ],
)
def test_an_interrupt_while_a_command_is_imported_is_one_line(module: str, script: str, name: str) -> None:
    """Ctrl-C while the import waits: a module that it needs does not return."""
    wait = f"import builtins, sys, time, runpy; sys.argv = [{script!r}];"
    # `-m` hands the interpreter to this same function
    code = f"{wait} sys.orig_argv = ['python', '-m', {module!r}]; import {module.split('.')[0]}; "
    code += "print('imported', flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell's background job ignores it, and so would what it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None and process.stdout.readline() == "imported\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert said == f"{name}: stopped by SIGINT\n"
    assert process.returncode == 128 + signal.SIGINT


def test_what_lacks_memory_is_told_by_its_number_or_by_its_words() -> None:
    absent = FileNotFoundError(2, "No such file or directory", "cannot allocate memory.csv")
    assert correctable(absent) is absent and not lacks_memory(absent)
    assert lacks_memory(OSError(12, "Cannot allocate memory")) and lacks_memory(MemoryError())
    assert lacks_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"))
    own = ValueError("its own cause")
    own.__cause__ = own
    assert correctable(own) is None
