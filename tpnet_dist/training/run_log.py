"""Writes a run's output as it goes: metrics line by line, and scalars for TensorBoard."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpnet_dist.files.stored_json import sealed_line
from tpnet_dist.files.user_paths import require_file
from tpnet_dist.training.loggers import Logger, numbers_of, open_logger
from tpnet_dist.training.metrics_file import METRICS_NAME, EpochLine, StepLine, last_line, read_lines

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

TENSORBOARD_NAME = "tensorboard"


class RunLog:
    """Writes one JSON object per line, each with `kind`, and the same numbers as TensorBoard scalars, by
    seed."""

    def __init__(
        self,
        folder: Path,
        *,
        loggers: Sequence[str] = (),
        settings: Mapping[str, object] | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        """`loggers`: where numbers go besides, and `settings` that these are told once; `say`: what hears
        that one failed."""
        self._folder, self._names, self._settings, self._say = folder, loggers, settings or {}, say
        self._loggers: list[Logger] = []
        self._started: float | None = None
        require_file(folder / METRICS_NAME, "metrics")
        self._lines = (folder / METRICS_NAME).open("a", buffering=1)
        self._scalars: SummaryWriter | None = None

    def start_seed(self, seed: int, *, after_step: int, after_epoch: int) -> None:
        """Write for this seed from here on; what an interrupted run wrote of what comes after goes away.

        A killed process may have left half a line, and steps that are to be repeated; one that was stopped in
        validation before, figures of an epoch whose last step is not repeated, but whose validation is.
        """
        # takes a second to import, and only the rank that writes needs it
        from torch.utils.tensorboard import SummaryWriter

        self.close()

        def is_done(line: StepLine | EpochLine) -> bool:
            is_validated = not isinstance(line, EpochLine) or line.epoch <= after_epoch
            return line.step <= after_step and is_validated

        _keep_lines(self._folder / METRICS_NAME, lambda line: line.seed != seed or is_done(line))
        self._lines = (self._folder / METRICS_NAME).open("a", buffering=1)
        if self._started is None:
            # the clock goes on where the process before was
            last = last_line(self._folder / METRICS_NAME)
            self._started = time.monotonic() - (last.seconds if last is not None else 0.0)
        folder = self._folder / TENSORBOARD_NAME / f"seed-{seed}"
        self._scalars = SummaryWriter(str(folder), purge_step=after_step + 1)
        self._loggers = [
            open_logger(name, self._folder, seed, self._settings, self._say) for name in self._names
        ]

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Write one line; `step` counts those of the optimizer over all epochs."""
        if self._started is None:
            self._started = time.monotonic()
        line = {"kind": kind, "step": step, "seconds": round(time.monotonic() - self._started, 3), **values}
        print(sealed_line(line), file=self._lines)
        for name, value in flat(values).items():
            if self._scalars is not None and isinstance(value, float):
                self._scalars.add_scalar(f"{kind}/{name}", value, step)
        for logger in self._loggers:
            logger.write(kind, int(values.get("epoch", 0)), step, numbers_of(values))

    def flush(self) -> None:
        self._lines.flush()
        if self._scalars is not None:
            self._scalars.flush()

    def close(self) -> None:
        self._lines.close()
        if self._scalars is not None:
            self._scalars.close()
        for logger in self._loggers:
            logger.close()
        self._loggers = []


def _keep_lines(path: Path, keep: Callable[[StepLine | EpochLine], bool]) -> None:
    """Keep only whole lines, and of these the ones wanted; the file changes at once or not at all.

    A damaged line says nothing, so nothing says that it will be written again: it stays.
    """
    aside = path.with_name(f".{path.name}.part")
    with aside.open("w", encoding="utf-8") as new:
        new.writelines(text for text, line in read_lines(path) if line is None or keep(line))
    aside.replace(path)


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one, with names joined by slashes."""
    joined: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            joined |= flat(value, f"{prefix}{name}/")
        else:
            joined[f"{prefix}{name}"] = value
    return joined
