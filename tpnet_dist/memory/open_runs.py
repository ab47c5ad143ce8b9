"""The runs that are planned and not recorded yet, and how ranks meet for them.

    1. plan     what this rank's slices read, what must be replayed for that, which rows must be borrowed
    2. arrange  ranks tell one another which rows they borrow
    3. borrow   layers of rows travel, for the whole run at once

The first two need no row: on a GPU they are done ahead, by a thread that leaves the device alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.memory.borrowed_rows import BorrowedRows
from tpnet_dist.memory.event_run import EventRun, Integers
from tpnet_dist.memory.run_exchange import ArrangedRun, RunExchange
from tpnet_dist.memory.run_length import Fit, RunLength
from tpnet_dist.memory.run_plan import RunPlan, plan_run
from tpnet_dist.memory.walks import Walk


@dataclass
class _OpenRun:
    plan: RunPlan
    is_arranged: bool = False
    arranged: ArrangedRun | None = None
    """None on one rank, which has nobody to meet."""


class OpenRuns:
    """Takes runs through the stages before the first row is read, in the order they come."""

    def __init__(
        self, walk: Walk, blocks: Blocks, borrowed: BorrowedRows, run_exchange: RunExchange, length: RunLength
    ) -> None:
        self.walk, self.blocks, self.borrowed, self.length = walk, blocks, borrowed, length
        self.run_exchange, self.exchange = run_exchange, run_exchange.exchange
        self._open: list[_OpenRun] = []

    def __len__(self) -> int:
        return len(self._open)

    def is_first(self, plan: RunPlan) -> bool:
        """Return whether all runs planned before are recorded."""
        return bool(self._open) and self._open[0].plan is plan

    def plan(self, run: EventRun, nodes: list[Integers]) -> RunPlan:
        """Stage 1. `nodes`: for each batch the distinct nodes whose rows this rank wants before it."""
        with self.exchange.stats.stage("plan"):
            plan = plan_run(
                run,
                nodes,
                blocks=self.blocks,
                rank=self.exchange.rank,
                borrowed=self.borrowed,
                hops=self.walk.hops,
                timescales=self.walk.timescales,
                # what runs before it need is used up when its rows come
                open_runs=[each.plan for each in self._open[-1:]],
            )
        self._open.append(_OpenRun(plan))
        return plan

    def arrange(self, plan: RunPlan) -> ArrangedRun | None:
        """Stage 2, of runs in the order they were planned; it may be left to the next stage."""
        # a copy, since on a GPU another thread closes runs meanwhile
        run = next(each for each in self._open.copy() if each.plan is plan)
        if not run.is_arranged:
            if self.exchange.num_ranks > 1:
                with self.exchange.stats.stage("borrow"):
                    run.arranged = self.run_exchange.arrange(plan)
            run.is_arranged = True
            self.length.learn(plan.num_batches, Fit.TWICE if run.arranged is None else run.arranged.fit)
        return run.arranged

    def borrow(self, plan: RunPlan, following: RunPlan | None = None) -> None:
        """Stage 3; rows for the run that is planned to follow set out, and travel while this one is
        recorded."""
        assert self.is_first(plan), "rows are borrowed when all runs planned before are recorded"
        run = self.arrange(plan)
        next_run = None if following is None else self.arrange(following)
        if run is None:
            return
        with self.exchange.stats.stage("borrow"):
            if run.arriving is None:
                self.run_exchange.lend(run)
            self.borrowed.make_room(plan.num_slots)
            if plan.is_early:
                self.run_exchange.keep_late(run)
            if next_run is not None:
                self.run_exchange.lend(next_run)
            self.run_exchange.keep_early(run)

    def in_turn(self, plans: Iterator[RunPlan]) -> Iterator[RunPlan]:
        """Yield each run when its rows are here. With several ranks the next is planned by then, so that its
        rows travel while this one is recorded."""
        plan = next(plans, None)
        while plan is not None:
            # how long the next run is depends on it
            self.arrange(plan)
            following = next(plans, None) if self.exchange.num_ranks > 1 else None
            self.borrow(plan, following)
            yield plan
            plan = following if self.exchange.num_ranks > 1 else next(plans, None)

    def close_first(self) -> None:
        """The first run is recorded."""
        self._open.pop(0)

    def drop(self) -> None:
        """Forget the runs that are planned and will not be recorded."""
        for run in self._open:
            if run.arranged is not None and run.arranged.arriving is not None:
                run.arranged.arriving.wait()
        self._open = []
