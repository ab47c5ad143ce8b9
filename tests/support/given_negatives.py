"""Negatives that a test decides on, whatever the log holds."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tpnet_dist.batches.negatives import NegativeEnds
from tpnet_dist.events.view import SelectedEvents


@dataclass(frozen=True)
class GivenNegatives:
    """One destination for each event from a certain one on."""

    dst_B: npt.NDArray[np.int32]
    first_event: int = 0

    def draw(self, batch: SelectedEvents, here: slice) -> NegativeEnds:
        return NegativeEnds(None, self.dst_B[batch.index[here] - self.first_event][:, None])
