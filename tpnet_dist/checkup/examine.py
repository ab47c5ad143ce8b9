"""A whole checkup, stage after stage; whatever fails is a finding, and the rest goes on."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpnet_dist.checkup.findings import Findings, Prediction, Verdict, losses_agree
from tpnet_dist.checkup.launched import RanksFailedError, run_ranks
from tpnet_dist.checkup.machine import facts_of_machine
from tpnet_dist.checkup.short_training import ShortTraining, Trained, train_shortly
from tpnet_dist.config.toml_files import CONFIG_NAME, read_config
from tpnet_dist.files.readable import readable_bytes
from tpnet_dist.sizing.data_traffic import count_data
from tpnet_dist.sizing.devices import device_named
from tpnet_dist.sizing.exchange_count import expected_traffic
from tpnet_dist.sizing.show import LIMITS
from tpnet_dist.sizing.step_time import training_step_time

Say = Callable[[str], None]

FOUND_NAME = "rank_checks.json"
_PLANNED = {"3090": "rtx3090", "A100": "a100", "H100": "h100"}
"""Devices the planner knows, by what stands in a GPU's name."""


def examine(what: ShortTraining, folder: Path, *, device: str, ranks: int, say: Say) -> Findings:
    """Examine the machine. `folder`: where runs and logs are kept while they are looked at."""
    started, findings = time.perf_counter(), Findings(facts_of_machine())
    say(f"collectives and kernels on {ranks} rank(s)")
    findings.verdicts += _rank_checks(folder, device=device, ranks=ranks)
    _train(findings, what, folder, device, ranks, say)
    if findings.trainings:
        say("what the planner predicts")
        findings.predictions += _predictions(findings, folder, device)
    findings.seconds = time.perf_counter() - started
    return findings


def _rank_checks(folder: Path, *, device: str, ranks: int) -> list[Verdict]:
    found_path = folder / FOUND_NAME
    try:
        run_ranks(
            ["tpnet_dist.checkup.rank_checks", str(found_path)],
            ranks=ranks,
            on_gpus=device == "cuda",
            log=folder / "rank_checks.log",
        )
    except RanksFailedError as failure:
        return [Verdict("collectives and kernels", False, str(failure))]
    found: dict[str, dict[str, Any]] = json.loads(found_path.read_text())
    return [Verdict(name, each["ok"], _told(each)) for name, each in found.items()]


def _told(found: dict[str, Any]) -> str:
    if "difference" in found:
        return found["reason"] or f"{found['difference']:.1e} from torch's operations"
    speed = f"{readable_bytes(found['bytes_per_second'])}/s from a rank"
    wrong = f"wrong on ranks {found['wrong_on_ranks']}, " if found["wrong_on_ranks"] else ""
    return f"{wrong}{speed}, {1e6 * found['seconds_of_4_KiB']:,.0f} µs for 4 KiB"


def _train(findings: Findings, what: ShortTraining, folder: Path, device: str, ranks: int, say: Say) -> None:
    """Train on one CPU rank, which all others are compared with, then on the device."""
    cases = list(dict.fromkeys([("cpu", 1), (device, 1), (device, ranks)]))
    for kind, count in cases:
        say(f"training of {what.steps} steps on {count} {kind.upper()} rank(s)")
        try:
            trained = train_shortly(what, folder, device=kind, ranks=count)
        except RanksFailedError as failure:
            name = f"training on {count} {kind.upper()} rank(s)"
            findings.verdicts.append(Verdict(name, False, str(failure)))
            continue
        if findings.trainings and findings.trainings[0].name == "1 CPU rank":
            findings.verdicts.append(losses_agree(findings.trainings[0], trained))
        findings.trainings.append(trained)


def _predictions(findings: Findings, folder: Path, device: str) -> list[Prediction]:
    """Return what the planner expects of each training, for devices that it knows."""
    predictions = []
    for trained in findings.trainings:
        known = _planned_device(findings, trained)
        if known is None:
            continue
        config = read_config(folder / f"run-{trained.device}-{trained.ranks}" / CONFIG_NAME)
        on = device_named(known)
        log, counted = count_data(Path(config.data.folder), config, trained.ranks, on)
        traffic = counted or expected_traffic(config, log, trained.ranks)
        step = training_step_time(config, log, trained.ranks, on, traffic)
        parts = {name: value for name, value in vars(step).items() if isinstance(value, float)}
        limit = LIMITS[step.bottleneck]
        predictions.append(Prediction(trained.ranks, trained.device, on.title, step.seconds, limit, parts))
    return predictions


def _planned_device(findings: Findings, trained: Trained) -> str | None:
    if trained.device == "cpu":
        return "cpu"
    name = findings.facts.get("GPU 0", "")
    return next((device for part, device in _PLANNED.items() if part in name), None)
