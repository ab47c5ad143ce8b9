"""A verdict says what differs; the report holds all of it, as text and as JSON."""

import json
from dataclasses import replace

import pytest

from tpnet_dist.checkup.findings import Findings, Prediction, Verdict, losses_agree
from tpnet_dist.checkup.short_training import Trained

ONE = Trained(
    device="cpu", ranks=1, losses=[0.7, 0.6, 0.5], ap=0.8, events_per_second=300.0, peak_memory_bytes=1 << 30,
    phase_seconds=[{"step": 0.5, "score": 0.2, "backward": 0.25, "idle": 0.05, "record": 0.01}],
)  # fmt: skip
GPU = replace(ONE, device="cuda", ranks=4, losses=[0.7, 0.6000001, 0.5])


def test_equal_losses_are_said_to_be_equal_to_the_last_bit() -> None:
    verdict = losses_agree(ONE, replace(ONE, ranks=2))
    assert verdict.ok
    assert "to the last bit" in verdict.detail


def test_rounding_is_told_with_its_step_and_is_no_difference() -> None:
    verdict = losses_agree(ONE, GPU)
    assert verdict.ok
    assert "step 2 of 3" in verdict.detail


@pytest.mark.parametrize("losses", [[0.7, 0.61, 0.5], [0.7, float("nan"), 0.5], [0.7, 0.6], []])
def test_other_losses_or_other_steps_differ(losses: list[float]) -> None:
    assert not losses_agree(ONE, replace(GPU, losses=losses)).ok


def test_a_cpu_may_differ_by_less_than_a_gpu() -> None:
    losses = [0.7, 0.60001, 0.5]
    assert losses_agree(ONE, replace(GPU, losses=losses)).ok
    assert not losses_agree(ONE, replace(ONE, ranks=2, losses=losses)).ok


def test_the_report_is_well_only_if_every_check_is() -> None:
    findings = Findings({"system": "a machine"}, [Verdict("all-to-all", True, "1 GB/s")])
    assert findings.ok
    findings.verdicts.append(Verdict("all-reduce", False, "wrong on ranks [1]"))
    assert not findings.ok
    assert "differs: all-reduce; 1 other checks passed" in findings.text()


def test_the_report_shows_speed_prediction_and_phases() -> None:
    prediction = Prediction(4, "cuda", "RTX 3090", 0.002, "starting operations", {"calls": 0.002})
    findings = Findings({"GPU 0": "RTX 3090"}, [], [ONE, GPU], [prediction])
    text = findings.text()
    for part in ("1 CPU rank", "4 CUDA ranks", "500.0", "2.0", "record (beside)", "record on the GPU"):
        assert part in text
    [by_part] = [line for line in text.splitlines() if line.startswith("starting operations")]
    assert by_part.split()[-2:] == ["-", "2.0"]
    assert "on the GPU" not in Findings({}, [], [ONE], []).text()
    assert json.loads(json.dumps(findings.to_json()))["trainings"][1]["name"] == "4 CUDA ranks"
