"""The readers of CSV and of pickles under atheris, which chooses input by the branches that it leads to:

    python -m tests.fuzz.guided --minutes 5 [--only csv weights metadata]

prints the cases of each reader, and one JSON line; exit code 1 if a reader failed. atheris is an extra,
`pip install '.[fuzz]'`, for Linux alone: without it nothing is tried, and one line says so.
"""

import argparse
import importlib
import importlib.util
import json
import pickle
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FunctionType

import torch

from tests.fuzz.cases import converted
from tests.fuzz.makings import Makings, make_all
from tests.support.tampered_checkpoints import Evil
from tpnet_dist.errors import InputError
from tpnet_dist.prediction.trained import open_trained
from tpnet_dist.training.step_folder import DamagedCheckpoint, read_tensors

Reader = Callable[[bytes], object]
INSTRUMENTED = (
    *("tpnet_dist.files.csv_quotes", "data_prep.text_source", "data_prep.row_rules", "data_prep.raw_files"),
    *("data_prep.layout", "data_prep.times", "data_prep.values"),
    *("tpnet_dist.training.weights_file", "tpnet_dist.training.step_metadata"),
    *("tpnet_dist.prediction.trained", "tpnet_dist.prediction.checkpoint_rules"),
    "torch._weights_only_unpickler",
)
"""The modules whose branches are followed."""
SECONDS_OF_A_CASE = 60


def csv_reader(folder: Path) -> tuple[list[bytes], Reader]:
    """Conversion of a raw file: all rows, or a refusal."""
    made = Makings(folder / "made")
    seeds = [b'src,dst,time,note\n1,2,3,"a\nb"\n2,3,4,"c, ""d"""\r\n', b"src\tdst\ttime\n1\t2\t3\n"]
    return seeds, lambda content: converted(content, made)


def weights_reader(folder: Path) -> tuple[list[bytes], Reader]:
    """The pickle within `best.pt`, with no checksum that would end it: an InputError, or weights."""
    best, mark = make_all(folder / "made").best, folder / "mark"
    state = torch.load(best, weights_only=True)
    del state["sha256"]
    torch.save(state, best)
    with zipfile.ZipFile(best) as file:
        contents = {name: file.read(name) for name in file.namelist()}
    [pickled] = (name for name in contents if name.endswith("/data.pkl"))

    def read(content: bytes) -> None:
        with zipfile.ZipFile(best, "w") as file:
            for name, stored in contents.items():
                file.writestr(name, content if name == pickled else stored)
        try:
            open_trained(best)
        except InputError as error:
            assert best.name in str(error), error
        assert not mark.exists(), "code in a pickle was run"

    return [contents[pickled], pickle.dumps(Evil(mark), protocol=2)], read


def metadata_reader(folder: Path) -> tuple[list[bytes], Reader]:
    """`.metadata` of a step: DamagedCheckpoint, or tensors."""
    step, mark = next((make_all(folder / "made").best.parent).glob("step-*")), folder / "mark"
    metadata = step / ".metadata"
    seeds = [metadata.read_bytes(), pickle.dumps(Evil(mark))]

    def read(content: bytes) -> None:
        metadata.write_bytes(content)
        with suppress(DamagedCheckpoint):
            read_tensors(step)
        assert not mark.exists(), "code in a pickle was run"

    return seeds, read


READERS = {"csv": csv_reader, "weights": weights_reader, "metadata": metadata_reader}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="for each reader")
    parser.add_argument("--only", nargs="*", choices=list(READERS), default=list(READERS))
    parser.add_argument("--reader", choices=list(READERS), help=argparse.SUPPRESS)
    said = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed, so no reader was tried by its branches: pip install '.[fuzz]'")
    elif said.reader:
        _fuzz(said.reader, said.minutes)
    else:
        _fuzz_all(said.only, said.minutes)


def _fuzz_all(names: list[str], minutes: float) -> None:
    """Each in a process of its own, which the fuzzer ends."""
    cases, failed = {}, []
    for name in names:
        command = [sys.executable, "-m", "tests.fuzz.guided", "--reader", name, "--minutes", str(minutes)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        found = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
        cases[name] = int(found[1]) if found else 0
        if done.returncode:
            failed.append(name)
            print(done.stderr[-8000:], file=sys.stderr)
        print(f"{name:16} {cases[name]:7,}: {'failed' if done.returncode else 'as they should'}", flush=True)
    print(json.dumps({"study": "guided fuzz", "cases": cases, "failed": failed}))
    sys.exit(bool(failed))


def _fuzz(name: str, minutes: float) -> None:
    import atheris

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for function in _functions():
            atheris.instrument_func(function)
        seeds, read = READERS[name](folder)
        corpus = folder / "corpus"
        corpus.mkdir()
        for number, seed in enumerate(seeds):
            (corpus / str(number)).write_bytes(seed)
        options = {
            "max_total_time": round(60 * minutes),
            "timeout": SECONDS_OF_A_CASE,
            "artifact_prefix": f"{folder}/",
            "print_final_stats": 1,
        }
        atheris.Setup([name, *(f"-{key}={value}" for key, value in options.items()), str(corpus)], read)
        atheris.Fuzz()


def _functions() -> Iterator[FunctionType]:
    """All that are written in these modules, methods among them."""
    for name in INSTRUMENTED:
        module = importlib.import_module(name)
        for place in (module, *(each for each in vars(module).values() if isinstance(each, type))):
            for function in vars(place).values():
                if isinstance(function, FunctionType) and function.__module__ == name:
                    yield function


if __name__ == "__main__":
    main()
