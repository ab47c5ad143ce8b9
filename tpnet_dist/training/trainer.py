"""Train one seed: epochs, validation, early stopping, and in the end the best epoch's figures."""

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch

from tpnet_dist.batches.event_batches import replay, until_stop_requested
from tpnet_dist.batches.link_batches import PlannedRows, rows_ahead
from tpnet_dist.batches.run_data import RunData
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.stop_request import StopRequested
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.protocols import Evaluator, Passes
from tpnet_dist.evaluation.results import EventsPerSecond, Figures, SeedResults
from tpnet_dist.evaluation.scoring import Scorer
from tpnet_dist.files.progress import Display
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.memory.kernels import is_compiled
from tpnet_dist.models.registry import spec_of
from tpnet_dist.training.best_epoch import evaluate_best, evaluate_parts
from tpnet_dist.training.checkpoint import CheckpointFolder
from tpnet_dist.training.continued import read_before, start_of, write_before
from tpnet_dist.training.progress import Progress
from tpnet_dist.training.run_log import RunLog
from tpnet_dist.training.run_model import RunModel
from tpnet_dist.training.step_meter import StepMeter, remedy_of
from tpnet_dist.training.step_profile import ProfileRequest
from tpnet_dist.training.weights_file import load_weights, start_from_file


class SeedTrainer:
    """Trains one seed of a run. Every rank has one; only the first has a log and writes checkpoints."""

    def __init__(
        self,
        config: Config,
        data: RunData,
        seed: int,
        *,
        passes: Passes,
        checkpoints: CheckpointFolder,
        log: RunLog | None,
        display: Display,
        profile: ProfileRequest | None = None,
    ) -> None:
        # config
        self.config, self.seed = config, seed
        # parts
        self.data, self.checkpoints, self.log, self.display = data, checkpoints, log, display
        self.profile = profile or ProfileRequest()
        self.parts = RunModel.build(
            config, data.log, data.world, seed, data.row_exchange, borrowed_rows=data.borrowed_rows
        )
        if self.parts.memory is not None and not is_compiled():
            display.say("compiling the memory's kernel, once for this machine: about 3 s")
        self.scorer = Scorer(config, data, self.parts, display)
        self.evaluator = Evaluator(self.scorer, passes)
        self.universe = data.universe(data.split.train)
        # progress
        self.progress = self._progress_so_far()
        self._saved_step = self.progress.step
        if log is not None:
            log.start_seed(seed, after_step=self.progress.step, after_epoch=self.progress.epoch)

    def _progress_so_far(self) -> Progress:
        """Return the progress of the newest checkpoint and load its state; without one, start from the
        beginning."""
        parts, world = self.parts, self.data.world
        steps = self.data.train_plan.num_steps(self.config.training.batches_per_step)
        progress = self.checkpoints.load_newest(parts.model, parts.step.engine, steps_per_epoch=steps)
        if progress is None:
            world.phase.saved = ""
            if self.config.training.continue_from:
                self._start_from_other()
                return Progress()
            start_from_file(parts.model, spec_of(self.config), self.config.model.weights, world)
            parts.step.engine.weights_changed()
            return Progress()
        progress.decide_whether_done(self.config.training)
        world.phase.saved = f"step {progress.step}"
        self.display.say(f"{self.checkpoints.folder}: {self._found(progress, steps)}")
        return progress

    def _found(self, progress: Progress, steps: int) -> str:
        """Return what a run that goes on has behind it, as text."""
        best = "no epoch validated yet"
        if progress.best_epoch >= 0:
            best = f"best so far epoch {progress.best_epoch + 1}, validation AP {progress.best_ap:.4f}"
        if progress.is_done:
            return f"all {progress.epoch} epochs are trained, to step {progress.step}; {best}"
        done = f"{progress.steps_of_epoch} of its {steps} steps are done"
        return f"going on from step {progress.step}, epoch {progress.epoch + 1}, of which {done}; {best}"

    def _start_from_other(self) -> None:
        """Take weights and optimizer of the run to go on from; first measure what they come to here."""
        parts, world, config = self.parts, self.data.world, self.config
        start = world.on_first_rank(lambda: start_of(config, self.seed))
        load_weights(parts.model, start.weights, start.path)
        parts.step.engine.weights_changed()
        if world.on_first_rank(lambda: read_before(self.checkpoints.folder)) is None:
            world.phase.now = f"the evaluation of {config.training.continue_from}"
            what = f"before, weights of {config.training.continue_from}"
            figures = evaluate_parts(self.evaluator, start.epoch, what, self.display)
            world.on_first_rank(lambda: write_before(self.checkpoints.folder, figures))
            kind = config.evaluation.negatives[0]
            for name, by_setting in figures.items():
                ap = by_setting["transductive"][kind]["ap"]
                self.display.say(f"before: {name} transductive AP {ap:.4f}")
        parts.step.engine.load_optimizer_state(start.optimizer)

    def train(self) -> SeedResults:
        """Train all epochs that are left, and return the results of the best."""
        try:
            while not self.progress.is_done:
                learnt = self._train_epoch()
                self._validate(learnt)
            self._mark("the evaluation of the best epoch")
            figures = evaluate_best(self.evaluator, self.checkpoints, self.display)
        except StopRequested:
            # an evaluation changes no weight: it is repeated, the steps before it are not
            if self._saved_step != self.progress.step:
                self._save()
            raise
        progress = self.progress
        train_rate = progress.events / progress.seconds if progress.seconds else 0.0
        return SeedResults(
            val=figures["val"],
            test=figures["test"],
            best_epoch=progress.best_epoch + 1,
            calibration=self.evaluator.calibrations.get("val"),
            epochs_run=progress.epoch,
            events_per_second=EventsPerSecond(train=train_rate, score=self.scorer.speed.events_per_second),
            before=self.data.world.on_first_rank(lambda: read_before(self.checkpoints.folder)),
        )

    def _train_epoch(self) -> dict[str, Any]:
        """Train the epoch from where it stands to its end; return the mean loss, and what ranks exchanged."""
        config, progress, plan = self.config.training, self.progress, self.data.train_plan
        last_step = self._last_step()
        first_event = plan.position(progress.steps_of_epoch, config.batches_per_step).event
        with self.display.stage(self._title(), plan.num_events, done=first_event):
            self._mark("recording the events before")
            rows = self._rows_ahead(last_step)
            meter = StepMeter(
                self.seed,
                progress,
                self.log,
                self.display,
                self.parts.stats,
                self._remedy,
                config.batches_per_step,
            )
            profile = self.profile.begin(self.data.world, self.parts.step.engine, self.display)
            for number in range(progress.steps_of_epoch, last_step):
                self._mark("training", step=progress.step + 1)
                started = time.perf_counter()
                self._learn(number, rows, meter)
                is_last = number + 1 == last_step
                saves = not is_last and self._is_time_to_save()
                if is_last or saves:
                    meter.look()
                # the meter included, which waits for what a GPU has only been told to do
                progress.seconds += time.perf_counter() - started
                if saves:
                    self._save()
                profile.end_step()
                # ranks meet where they look at losses, so that is where they agree to stop
                if meter.has_seen_all and not is_last:
                    self._stop_if_requested(rows)
            profile.close()
            # nothing is left, but the thread that looks for more is to end before the memory is used again
            left_over = next(rows, None)
            assert left_over is None
        if last_step < plan.num_steps(config.batches_per_step):
            # what was not learned from has happened all the same
            self._bring_memory_to(len(plan))
        self._require_finite_weights()
        loss = progress.loss_sum / progress.steps_of_epoch
        return {"train_loss": loss, "exchange": meter.exchanged(self.data.world.device)}

    def _learn(self, number: int, rows: Iterator[PlannedRows], meter: StepMeter) -> None:
        """Do one step of the epoch."""
        progress, plan = self.progress, self.data.train_plan
        batches = plan.step(number, self.config.training.batches_per_step)
        num_events = int(plan.borders[batches.stop] - plan.borders[batches.start])
        outcome = self.parts.step(
            islice(rows, len(batches)),
            num_batches=len(batches),
            num_events=num_events,
        )
        progress.count_step(num_events)
        meter.add(outcome, batches=batches, num_events=num_events)

    def _rows_ahead(self, last_step: int) -> Iterator[PlannedRows]:
        """Yield planned links and rows of the epoch's batches, from where it stands to the end of
        `last_step`."""
        data, config, progress = self.data, self.config, self.progress
        plan, per_step = data.train_plan, config.training.batches_per_step
        first, last = (plan.position(step, per_step) for step in (progress.steps_of_epoch, last_step))
        memory_time = self._bring_memory_to(first.batch)
        key = SampleKey(self.seed, progress.epoch)
        negatives = self.universe.negatives([config.training.negatives], key)
        planner = data.planner(
            data.train_neighbors, negatives, key=key, padding_node=self.parts.padding_node, dropout=key
        )
        requests = planner.requests(data.split.train, plan, from_batch=first.batch, memory_time=memory_time)
        # exactly these on every rank: one that stopped earlier would leave the others waiting
        return rows_ahead(
            self.parts.memory,
            islice(requests, last.batch - first.batch),
            prefetch=config.memory.prefetch,
            maker=self.parts.batch_maker,
        )

    def _bring_memory_to(self, batch: int) -> float:
        """Bring the memory to where it is before a batch of this epoch (within a group of equal times: before
        the group); return the time of its last event."""
        memory, train, plan = self.parts.memory, self.data.split.train, self.data.train_plan
        if memory is not None:
            memory.reset(self.progress.epoch)
            look = until_stop_requested(self.data.world)
            replay(memory, self.data.log, train, plan, num_batches=batch, progress=look)
        return self.data.time_before(train, int(plan.recorded[batch]))

    def _validate(self, learnt: dict[str, Any]) -> None:
        """Evaluate the epoch just trained; decide whether it is the best, and whether to go on."""
        progress, config = self.progress, self.config
        self._mark("validation")
        figures = {"val": self.evaluator.evaluate("val", kinds=config.evaluation.negatives[:1])}
        if config.evaluation.test_every_epoch:
            figures["test"] = self.evaluator.evaluate("test", kinds=config.evaluation.negatives[:1])
        ap = figures["val"]["transductive"][config.evaluation.negatives[0]]["ap"]
        if ap > progress.best_ap:
            progress.best_epoch, progress.best_ap = progress.epoch, ap
            self.checkpoints.save_best(self.parts.model, progress)
        self._report_epoch(learnt, figures)
        progress.end_epoch(config.training)
        self._save()

    def _last_step(self) -> int:
        """Return the last step of this epoch."""
        config, progress = self.config.training, self.progress
        of_epoch = self.data.train_plan.num_steps(config.batches_per_step)
        if config.max_steps is None:
            return of_epoch
        steps_left = max(0, config.max_steps - progress.step)
        return min(of_epoch, progress.steps_of_epoch + steps_left)

    def _is_time_to_save(self) -> bool:
        every = self.config.checkpoint.every_steps
        return bool(every and self.progress.step // every > self._saved_step // every)

    def _stop_if_requested(self, rows: Iterator[PlannedRows]) -> None:
        asked = self.data.world.stop_requested()
        if asked is None:
            return
        # the same batch on all ranks: what was read ahead ends there too
        rows.close()  # type: ignore[attr-defined]
        if self._saved_step != self.progress.step:
            self._save()
        raise StopRequested(asked)

    def _require_finite_weights(self) -> None:
        """Refuse weights that are not finite: a finite loss may have gradients that are not, and the last
        good checkpoint is to stay."""
        weights = [weight.detach().isfinite().all() for weight in self.parts.model.parameters()]
        if not torch.stack(weights).all():
            where = f"epoch {self.progress.epoch + 1}, step {self.progress.step}"
            raise InputError(f"weights are not finite after {where}, but must be; {self._remedy()}")

    def _remedy(self) -> str:
        return remedy_of(self.config, self.progress, self.data.world.phase.saved)

    def _save(self) -> None:
        self._require_finite_weights()
        phase, before = self.data.world.phase, self.data.world.phase.now
        self._mark("saving")
        if self.log is not None:
            # what a checkpoint is beyond is not written again
            self.log.flush()
        self.checkpoints.save(self.parts.step.engine, self.progress)
        self._saved_step = self.progress.step
        phase.now, phase.saved = before, f"step {self.progress.step}"

    def _mark(self, what: str, *, step: int | None = None) -> None:
        """Say what is done now; `step` is under way, otherwise the last one that was done is named."""
        progress, is_one = self.progress, len(self.config.training.all_seeds()) == 1
        seed, step = "" if is_one else f"seed {self.seed}, ", progress.step if step is None else step
        self.data.world.phase.now = f"{what}, {seed}epoch {progress.epoch + 1}, step {step}"

    def _title(self) -> str:
        return f"seed {self.seed}, epoch {self.progress.epoch + 1} of {self.config.training.epochs}"

    def _report_epoch(self, learnt: dict[str, Any], figures: dict[str, Figures]) -> None:
        progress = self.progress
        if self.log is not None:
            values = {"seed": self.seed, "epoch": progress.epoch + 1, **learnt, **figures}
            self.log.write("eval", progress.step, values)
        kind = self.config.evaluation.negatives[0]
        aps = ", ".join(
            f"{name} {setting} AP {by_kind[kind]['ap']:.4f}"
            for name, by_setting in figures.items()
            for setting, by_kind in by_setting.items()
        )
        best = ", best so far" if progress.best_epoch == progress.epoch else ""
        self.display.say(f"{self._title()}: loss {learnt['train_loss']:.4f}, {aps}{best}")
