"""Score and rank what files ask for, on all ranks: each takes its slice of a block, the first writes.

A file is read twice: first to see that every row can be used, so that hours of scoring do not end in a
refusal; then to score it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError
from tpnet_dist.events.batch_plan import slice_of
from tpnet_dist.events.raw_ids import UNKNOWN, Ids, Side, some_of
from tpnet_dist.events.shards import Times
from tpnet_dist.files.progress import Display
from tpnet_dist.prediction.candidates import DEFAULT_COUNT
from tpnet_dist.prediction.link_columns import DEFAULTS, GivenColumns, Role
from tpnet_dist.prediction.link_file import FileBlock, LinkFile
from tpnet_dist.prediction.link_scorer import Logits
from tpnet_dist.prediction.predictor import Predictor
from tpnet_dist.prediction.score_file import Columns, ScoreTable, ScoreWriter, score_file
from tpnet_dist.prediction.times import as_times, require_present

SOURCES_PER_BLOCK = 500


def observe_file(predictor: Predictor, path: Path, columns: GivenColumns) -> None:
    """Record the events of a file, all or none; it is held in memory whole."""
    events = LinkFile(path, columns, num_features=predictor.edge_width).read()
    if events.time is None or events.dst is None:
        raise InputError(
            f"{path}: has no column {columns.wanted('time')}, but events happen at a time; name it with "
            "--time"
        )
    with _named(path):
        predictor.observe(events.src, events.dst, events.time, events.features)


@dataclass
class _Unknown:
    """Rows of a file that name somebody nobody knows."""

    rows: int = 0
    ids: dict[str, None] = field(default_factory=dict)
    """Distinct, in order."""


@dataclass(frozen=True)
class Choice:
    """Says how many destinations a source is to get, and of which."""

    k: int
    candidates: Ids | str | None = None
    """Ids of candidates, or how they are chosen; None: all."""
    count: int = DEFAULT_COUNT
    exclude_seen: bool = False
    exclude_self: bool = False


@dataclass(frozen=True)
class Job:
    """What a command asks for, of one predictor; every rank has the same one."""

    predictor: Predictor
    world: World
    display: Display
    at: int | float | datetime | None = None
    """When, where a file does not say it; None: now."""
    skip_unknown: bool = False
    probability: bool = False

    def score(self, pairs: LinkFile, out: Path | None) -> None:
        """Every link of the file; without `out` they are shown."""
        num_rows = self._check(pairs, "pairs")
        self.world.phase.now = f"scoring {pairs.path}"
        stage = self.display.stage(f"scoring {pairs.path.name}", num_rows, unit="pairs")
        with self._writer(out) as writer, stage:
            for block in self._known_blocks(pairs):
                assert block.dst is not None
                times, mine = self._times(block), self._slice(len(block))
                scores = self.predictor.score(block.src[mine], block.dst[mine], times[mine])
                together = np.concatenate(self.world.gather_objects(scores))
                src, dst, time = (_answered(pairs, role) for role in ("src", "dst", "time"))
                answers = {src: block.src, dst: block.dst, time: times, **self._scored(together)}
                self._write(writer, answers)
                self.display.advance(len(block))
        self._say_where(out, f"scores of {num_rows:,} pairs")

    def rank(self, sources: LinkFile, choice: Choice, out: Path | None) -> None:
        """The most likely destinations of every source of the file; without `out` they are shown."""
        num_rows = self._check(sources, "sources")
        self.world.phase.now = f"ranking for {sources.path}"
        stage = self.display.stage(f"ranking for {sources.path.name}", num_rows, unit="sources")
        with self._writer(out) as writer, stage:
            for whole in self._known_blocks(sources):
                for start in range(0, len(whole), SOURCES_PER_BLOCK):
                    block = whole[slice(start, start + SOURCES_PER_BLOCK)]
                    self._write(writer, self._best(block, choice, sources))
                    self.display.advance(len(block))
        self._say_where(out, f"the {choice.k:,} most likely destinations of {num_rows:,} sources")

    def candidates(self, file: LinkFile) -> Ids:
        """Destinations to choose from, in the file's column of sources; held in memory whole."""
        ids = file.read().src
        is_known = self.predictor.ids.find(ids, "dst") != UNKNOWN
        unknown = _Unknown(int((~is_known).sum()), dict.fromkeys(map(str, ids[~is_known])))
        self._settle(file.path, "candidates", unknown, len(ids))
        known: Ids = ids[is_known]
        return known

    def _best(self, block: FileBlock, choice: Choice, file: LinkFile) -> Columns:
        times, mine, k = self._times(block), self._slice(len(block)), choice.k
        parts = self.world.gather_objects(
            self.predictor.top_k(
                block.src[mine],
                times[mine],
                k,
                choice.candidates,
                count=choice.count,
                exclude_seen=choice.exclude_seen,
                exclude_self=choice.exclude_self,
            )
        )
        columns = {
            _answered(file, "src"): block.src.repeat(k),
            _answered(file, "time"): times.repeat(k),
            "rank": np.tile(np.arange(1, k + 1), len(block)),
            _answered(file, "dst"): np.concatenate([part.destinations for part in parts]).ravel(),
            **self._scored(np.concatenate([part.scores for part in parts]).ravel()),
        }
        is_found = np.concatenate([part.found for part in parts]).ravel()
        return {name: column[is_found] for name, column in columns.items()}

    def _scored(self, logits: Logits) -> Columns:
        """Return the columns of scores."""
        if not self.probability:
            return {"score": logits}
        return {"score": logits, "probability": self.predictor.probabilities(logits)}

    def _say_where(self, out: Path | None, what: str) -> None:
        if out is not None:
            self.display.say(f"{out}: {what}")

    def _check(self, file: LinkFile, what: str) -> int:
        """The number of rows that will be used; refuses what cannot be used before anything is scored."""
        unknown, num_rows = _Unknown(), 0
        for block in file.blocks():
            num_rows += len(block)
            is_known = self._note_unknown(block, unknown)
            with _named(file.path if block.time is not None or self.at is None else "--at"):
                times = self._times(block[is_known])
                require_present(times, self.predictor.now, self.predictor.log.manifest)
        if not num_rows:
            raise InputError(f"{file.path}: holds no {what}; give a file with some")
        self._settle(file.path, what, unknown, num_rows)
        return num_rows - unknown.rows

    def _settle(self, path: Path, what: str, unknown: _Unknown, num_rows: int) -> None:
        """Refuse rows of unknown ids, or say that they are left out."""
        if unknown.rows and not self.skip_unknown:
            raise InputError(
                f"{path}: {unknown.rows:,} of {num_rows:,} {what} name {len(unknown.ids):,} unknown ids "
                f"({some_of(list(unknown.ids))}); correct them, or pass --skip-unknown to leave these out"
            )
        if unknown.rows:
            self.display.say(
                f"{path}: {unknown.rows:,} of {num_rows:,} {what} are left out, for "
                f"{len(unknown.ids):,} unknown ids ({some_of(list(unknown.ids))})"
            )
        if unknown.rows == num_rows:
            raise InputError(f"{path}: all {what} name unknown ids; give some of the log's")

    def _known_blocks(self, file: LinkFile) -> Iterator[FileBlock]:
        """Yield blocks without the rows that are left out, with ids written as in the log; none is empty."""
        ids = self.predictor.ids
        for block in file.blocks():
            known = block[self._note_unknown(block, _Unknown())]
            if len(known):
                dst = None if known.dst is None else ids.raw_of(ids.find(known.dst, "dst"))
                yield replace(known, src=ids.raw_of(ids.find(known.src, "src")), dst=dst)

    def _note_unknown(self, block: FileBlock, unknown: _Unknown) -> npt.NDArray[np.bool_]:
        """Note unknown ids; return which rows name known ids alone."""
        is_known = np.ones(len(block), bool)
        columns: list[tuple[Ids | None, Side]] = [(block.src, "src"), (block.dst, "dst")]
        for ids, side in columns:
            if ids is not None:
                missing = self.predictor.ids.find(ids, side) == UNKNOWN
                unknown.ids |= dict.fromkeys(map(str, ids[missing]))
                is_known &= ~missing
        unknown.rows += int((~is_known).sum())
        return is_known

    def _times(self, block: FileBlock) -> Times:
        given = block.time
        if given is None:
            given = np.asarray(self.predictor.now if self.at is None else self.at)
        return as_times(given, self.predictor.log.manifest, len(block))

    def _slice(self, size: int) -> slice:
        return slice(*slice_of(0, size, self.world.rank, self.world.num_ranks))

    @contextmanager
    def _writer(self, out: Path | None) -> Iterator[ScoreWriter | ScoreTable | None]:
        """Open the file of results, or a table to show; only the first rank writes one."""
        if self.world.rank:
            yield None
        elif out is None:
            table = ScoreTable()
            yield table
            table.show()
        else:
            with score_file(out) as writer:
                yield writer

    def _write(self, writer: ScoreWriter | ScoreTable | None, columns: Columns) -> None:
        if writer is not None:
            writer.write(columns)


def _answered(file: LinkFile, role: Role) -> str:
    """What a column of the results is called: as in the file, else as in the files of the log."""
    name = file.names.get(role) or file.columns.wanted(role)
    return DEFAULTS[role] if name.isdigit() or name in ("score", "rank", "probability") else name


@contextmanager
def _named(place: Path | str) -> Iterator[None]:
    """Say in which file, or flag, it is."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
