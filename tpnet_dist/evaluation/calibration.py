"""From logits to probabilities: two numbers, fitted on events of validation and one random link each."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MOST_EVENTS = 100_000
"""The number of events that two numbers are fitted to; they are spread over the part."""
_STEPS = 50
_PRIOR = 1.0
"""How much a slope of 1 and an offset of 0 weigh, in links: scores that part events from the rest without a
miss would ask for an endless slope."""

Scores = npt.NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Holds how logits become probabilities of a link against one random destination."""

    slope: float
    offset: float
    events: int
    """On how many events it was fitted, each beside one random link."""

    def probabilities(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return sigmoid(self.slope * logits.astype(np.float64) + self.offset).astype(np.float32)


def calibrate(positive_B: Scores, negative_B: Scores) -> Calibration | None:
    """Fit both numbers by Newton's method on the logistic loss; None without events."""
    if not len(positive_B):
        return None
    every = -(-len(positive_B) // MOST_EVENTS)
    positive, negative = (scores[::every].astype(np.float64) for scores in (positive_B, negative_B))
    x = np.stack([np.concatenate([positive, negative]), np.ones(2 * len(positive))], axis=1)
    is_event = np.repeat([1.0, 0.0], len(positive))
    start = np.array([1.0, 0.0])
    weights = start.copy()
    for _ in range(_STEPS):
        likely = sigmoid(x @ weights)
        gradient = x.T @ (likely - is_event) + _PRIOR * (weights - start)
        curvature = (x * (likely * (1 - likely))[:, None]).T @ x + _PRIOR * np.eye(2)
        change = np.linalg.solve(curvature, gradient)
        # long steps overshoot where the curvature is small
        weights = weights - change / max(1.0, float(np.abs(change).max()))
        if np.abs(change).max() < 1e-10:
            break
    return Calibration(slope=float(weights[0]), offset=float(weights[1]), events=len(positive))


def sigmoid(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    likely: npt.NDArray[np.float64] = 0.5 * (1 + np.tanh(logits / 2))
    return likely
