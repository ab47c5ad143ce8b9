"""Kinds of hostile cases, each one draw of hypothesis: input is made, a real command runs on it, and its
outcome is judged; a case returns what it was taken for."""

import csv
import io
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st

import data_prep.__main__ as data_prep
import tpnet_dist.predict as predict
import tpnet_dist.report.__main__ as report
import tpnet_dist.train as train
from tests.fuzz.flips import SILENT, stored_kinds
from tests.fuzz.flips import TRACEBACK as FOUND_DEFECT
from tests.fuzz.judge import judged
from tests.fuzz.makings import Makings, write_two_links
from tests.fuzz.strategies import (
    JSON_WEIRD,
    damages,
    mutated,
    raw_texts,
    settings_args,
    settings_files,
    tampered_json,
)
from tpnet_dist.events.reader import EventLog
from tpnet_dist.training.content_digest import DIGEST_KEY, sealed

Draw = Callable[[st.SearchStrategy[Any]], Any]
Case = Callable[[Draw, Makings], str]
TAKEN, REFUSED = "taken", "refused"


def raw_text(draw: Draw, made: Makings) -> str:
    return converted(draw(raw_texts()), made)


def converted(content: bytes, made: Makings) -> str:
    """What is converted are the rows that Python's own reader finds, all of them."""
    root = made.place()
    raw, out = root / "raw.csv", root / "log"
    raw.write_bytes(content)
    roles = ("--src", "0", "--dst", "1", "--time", "2", "--header", "yes", "--delimiter", ",", "--yes")
    done = judged(made.root, data_prep.main, "convert", raw, out, *roles, makes=(out,))
    if done.returncode:
        return REFUSED
    assert _events_of(out) == _rows_of(content), content
    return TAKEN


def raw_bytes(draw: Draw, made: Makings) -> str:
    """Nothing is said of the file, as most users do: whatever is guessed, nothing breaks."""
    root = made.place()
    raw, out = root / draw(st.sampled_from(["raw.csv", "raw.jsonl", "raw.parquet", "raw"])), root / "log"
    raw.write_bytes(draw(st.one_of(raw_texts(), mutated(made.raw.read_bytes()[:300]), mutated(_JSON_LINES))))
    done = judged(made.root, data_prep.main, "convert", raw, out, makes=(out,))
    if done.returncode == 0:
        assert len(EventLog(out)) > 0
        assert judged(made.root, data_prep.main, "describe", out, "--verify").returncode == 0
    return REFUSED if done.returncode else TAKEN


def folder_damage(draw: Draw, made: Makings) -> str:
    """A damaged data folder is refused, or holds what it held."""
    return _damage(
        draw,
        made,
        ("shards", "features", "manifest", "node ids"),
        lambda: judged(made.root, data_prep.main, "describe", made.log).returncode,
    )


def run_damage(draw: Draw, made: Makings) -> str:
    """A damaged run is refused, told of, or says what it said."""
    page = made.place() / "page.html"
    return _damage(
        draw,
        made,
        ("best.pt", "step folders", "results", "metrics"),
        lambda: judged(made.root, report.main, made.run, "--out", page, makes=(page,)).returncode,
    )


def tampered_manifest(draw: Draw, made: Makings) -> str:
    """What another kind of value does where a checksum vouches for it."""
    path = made.log / "manifest.json"
    content = path.read_bytes()
    try:
        path.write_bytes(draw(tampered_json(content)))
        command = ("describe", made.log, "--verify")
        return REFUSED if judged(made.root, data_prep.main, *command).returncode else TAKEN
    finally:
        path.write_bytes(content)


def tampered_results(draw: Draw, made: Makings) -> str:
    path, page = made.run / "results.json", made.place() / "page.html"
    content = path.read_bytes()
    try:
        path.write_bytes(draw(tampered_json(content)))
        done = judged(made.root, report.main, made.run, "--out", page, makes=(page,))
        return REFUSED if done.returncode else TAKEN
    finally:
        path.write_bytes(content)


def damaged_weights(draw: Draw, made: Makings) -> str:
    """Predictions of damaged weights are refused, or they are those of the true ones."""
    root = made.place()
    pairs, out, content = root / "pairs.csv", root / "scores.csv", made.best.read_bytes()
    write_two_links(pairs)
    try:
        made.best.write_bytes(draw(damages(content)))
        done = judged(made.root, predict.main, made.run, "--pairs", pairs, "--out", out, makes=(out,))
    finally:
        made.best.write_bytes(content)
    if done.returncode:
        return REFUSED
    assert out.read_text() == made.scores
    return TAKEN


def tampered_weights(draw: Draw, made: Makings) -> str:
    """What `best.pt` says with another kind of value where a checksum vouches for it."""
    root, content = made.place(), made.best.read_bytes()
    links, out = root / "pairs.csv", root / "scores.csv"
    write_two_links(links)
    state = torch.load(made.best, weights_only=True)
    name = draw(st.sampled_from(sorted(state.keys() - {DIGEST_KEY})))
    state[name] = draw(st.sampled_from([*JSON_WEIRD, torch.zeros(2)]))
    if draw(st.integers(0, 9)) == 0:
        del state[name]
    try:
        torch.save(sealed(state), made.best)
        done = judged(made.root, predict.main, made.run, "--pairs", links, "--out", out, makes=(out,))
        return REFUSED if done.returncode else TAKEN
    finally:
        made.best.write_bytes(content)


def pairs(draw: Draw, made: Makings) -> str:
    """As many links are scored as the file has rows."""
    root = made.place()
    given, out = root / "pairs.csv", root / "scores.csv"
    ends = st.tuples(st.integers(0, 14), st.integers(0, 14), st.sampled_from(["", "x", '"a\nb"']))
    rows = [f"{src},{dst},{note}" for src, dst, note in draw(st.lists(ends, min_size=1, max_size=6))]
    given.write_bytes(content := draw(mutated("\n".join(["src,dst,note", *rows]).encode())))
    command = (made.run, "--pairs", given, "--out", out)
    done = judged(made.root, predict.main, *command, makes=(out,))
    if done.returncode:
        return REFUSED
    scored = len(list(csv.reader(io.StringIO(out.read_text())))) - 1
    assert scored == len(_csv_rows(content)) - 1, content
    return TAKEN


def settings(draw: Draw, made: Makings) -> str:
    """Settings are checked before anything begins."""
    args = [*made.flags, *draw(settings_args())]
    if draw(st.booleans()):
        file = made.place() / "settings.toml"
        file.write_bytes(draw(settings_files()))
        args += ["--config", str(file)]
    done = judged(made.root, train.main, made.log, "--check", *args)
    return REFUSED if done.returncode else TAKEN


CASES: dict[str, Case] = {
    "raw text": raw_text,
    "raw bytes": raw_bytes,
    "folder damage": folder_damage,
    "run damage": run_damage,
    "tampered manifest": tampered_manifest,
    "tampered results": tampered_results,
    "damaged weights": damaged_weights,
    "tampered weights": tampered_weights,
    "pairs": pairs,
    "settings": settings,
}
_JSON_LINES = b"".join(b'{"src": %d, "dst": %d, "time": %d}\n' % (i % 3, i % 2, i) for i in range(5))


def _damage(draw: Draw, made: Makings, kinds: tuple[str, ...], command: Callable[[], int]) -> str:
    kind = draw(st.sampled_from(kinds))
    stored = stored_kinds(made)[kind]
    if kind not in made.intact:
        made.intact[kind] = stored.read()
    intact = made.intact[kind]
    file: Path = draw(st.sampled_from(stored.files))
    content = file.read_bytes()
    try:
        file.write_bytes(draw(damages(content)))
        code = command()
        outcome = stored.outcome(file, intact)
    finally:
        file.write_bytes(content)
    assert outcome not in (SILENT, FOUND_DEFECT), (file.name, outcome)
    return REFUSED if code else outcome


def _events_of(folder: Path) -> list[tuple[str, str, Decimal]]:
    log = EventLog(folder)
    raw = log.raw_ids().column("raw_id").to_pylist()
    events = log.read(0, len(log))
    rows = zip(events.src.tolist(), events.dst.tolist(), events.time.tolist(), strict=True)
    return [(str(raw[src]), str(raw[dst]), Decimal(repr(time))) for src, dst, time in rows]


def _rows_of(content: bytes) -> list[tuple[str, str, Decimal]]:
    """Without the header, as ids of one kind: whole numbers, or else text."""
    rows = [[field.strip() for field in row] for row in _csv_rows(content)[1:]]
    return [(row[0], row[1], _number(row[2])) for row in rows]


def _csv_rows(content: bytes) -> list[list[str]]:
    return [
        row
        for row in csv.reader(io.StringIO(content.decode("utf-8-sig", errors="replace"), newline=""))
        if row
    ]


def _number(text: str) -> Decimal:
    try:
        return Decimal(repr(float(text))) if "e" in text.lower() or "." in text else Decimal(text)
    except InvalidOperation:
        raise AssertionError(f"{text!r} was taken for a time") from None
