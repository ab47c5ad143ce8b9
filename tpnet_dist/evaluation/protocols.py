"""Figures of the validation or test part: which events, against which negatives, by which protocol.

    dyglib   inductive figures: a pass of its own over the inductive events, from the memory as it is at the
             start of the part, recording only them; then the memory goes back and all events are passed
    stream   one pass over all events; inductive figures: those of the inductive ones among them

Every pass gives scores for each event and its negatives, from which the figures are computed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tpnet_dist.batches.negatives import Universe
from tpnet_dist.batches.run_data import RunData, plan_of
from tpnet_dist.config.schema import Config, NegativeKind
from tpnet_dist.evaluation.calibration import Calibration, calibrate
from tpnet_dist.evaluation.results import Figures
from tpnet_dist.evaluation.scoring import EVALUATION_KEY, Scorer
from tpnet_dist.evaluation.tables import Scores, tabulate
from tpnet_dist.events.batch_plan import BatchPlan
from tpnet_dist.events.split import PartName
from tpnet_dist.events.view import EventMask, EventView

Setting = Literal["transductive", "inductive"]

KIND_ORDER: tuple[NegativeKind, ...] = ("random", "historical", "inductive")


@dataclass(frozen=True)
class Pass:
    """Holds events that are scored one after another."""

    name: PartName
    setting: Setting
    view: EventView
    plan: BatchPlan
    universe: Universe
    is_inductive_B: EventMask
    """A mask of the inductive events; empty where inductive events have a pass of their own."""

    def figures(self, kinds: Sequence[NegativeKind], scores: Scores, ranked: Scores | None = None) -> Figures:
        """Return figures of the pass, and of the inductive events in it, by the same batches."""
        borders, some_B = self.plan.borders, self.is_inductive_B
        figures: Figures = {self.setting: tabulate(kinds, scores, borders, ranked)}
        if some_B.any():
            borders = np.unique(np.concatenate([[0], np.cumsum(some_B)])[borders])
            some_ranked = None if ranked is None else ranked[some_B]
            figures["inductive"] = tabulate(kinds, scores[some_B], borders, some_ranked)
        return figures


@dataclass(frozen=True)
class Passes:
    """Makes the passes over each part once for all seeds, with what negatives are drawn from."""

    config: Config
    data: RunData
    _made: dict[PartName, list[Pass]] = field(default_factory=dict)

    def over(self, name: PartName) -> list[Pass]:
        """Return the passes over a part; the last is over all events."""
        if name not in self._made:
            part, split, log = self.data.part(name), self.data.split, self.data.log
            inductive = split.inductive(part)
            everything = self.data.universe(EventView(log, 0, len(log)), known=split.known_before(name))
            in_one = self.config.evaluation.protocol == "stream"
            mask_B = split.is_inductive(part.read(0, len(part)).columns) if in_one else np.zeros(0, np.bool_)
            self._made[name] = [Pass(name, "transductive", part, self._plan(part), everything, mask_B)]
            if len(inductive) and not in_one:
                own = self.data.universe(inductive)
                first = Pass(name, "inductive", inductive, self._plan(inductive), own, mask_B)
                self._made[name].insert(0, first)
        return self._made[name]

    def _plan(self, view: EventView) -> BatchPlan:
        return plan_of(view, self.config, self.config.evaluation.batch_size)


@dataclass(frozen=True)
class Evaluator:
    """Evaluates with one seed's model."""

    scorer: Scorer
    passes: Passes
    calibrations: dict[PartName, Calibration | None] = field(default_factory=dict)
    """Calibrations by part, of the weights evaluated last; only of parts scored against random negatives."""

    def evaluate(self, name: PartName, *, kinds: Sequence[NegativeKind], mrr_negatives: int = 0) -> Figures:
        """Return the figures of a part; the memory must stand at its start, and ends at its end."""
        memory_time = self.passes.data.memory_time(name)
        kinds = [kind for kind in KIND_ORDER if kind in kinds]
        *before, last = self.passes.over(name)
        figures = Figures()
        with self._memory_marked():
            for each in before:
                ranked = self._rank(each, mrr_negatives, memory_time)
                scores = self._score(each, kinds, memory_time)
                self._rewind()
                figures |= each.figures(kinds, scores, ranked)
            ranked = self._rank(last, mrr_negatives, memory_time)
        scores = self._score(last, kinds, memory_time)
        if "random" in kinds:
            self.calibrations[name] = calibrate(scores[:, 0], scores[:, 1])
        return figures | last.figures(kinds, scores, ranked)

    def _score(self, each: Pass, kinds: Sequence[NegativeKind], memory_time: float) -> Scores:
        negatives = each.universe.negatives(kinds, EVALUATION_KEY)
        return self.scorer.score(
            each.view,
            each.plan,
            negatives,
            memory_time=memory_time,
            links_per_event=1 + len(kinds),
            title=f"scoring {each.name}, {each.setting}",
        )

    def _rank(self, each: Pass, count: int, memory_time: float) -> Scores | None:
        """Return scores of each event and its `count` competitors; the memory is left as it was."""
        if not count:
            return None
        competitors = each.universe.random(EVALUATION_KEY, count, avoid_true=True)
        scores = self.scorer.score(
            each.view,
            each.plan,
            [competitors],
            memory_time=memory_time,
            links_per_event=1 + count,
            title=f"ranking {each.name}, {each.setting}, among {count:,}",
            speed=self.scorer.ranking_speed,
        )
        self._rewind()
        return scores

    @contextmanager
    def _memory_marked(self) -> Iterator[None]:
        memory = self.scorer.parts.memory
        if memory is None:
            yield
            return
        memory.snapshot()
        yield
        memory.forget_snapshot()

    def _rewind(self) -> None:
        if self.scorer.parts.memory is not None:
            self.scorer.parts.memory.restore()
