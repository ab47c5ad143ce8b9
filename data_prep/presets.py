"""The named formats: each is a layout for the one CSV machinery, plus the files that lie beside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from data_prep.layout import Layout
from tpnet_dist.errors import InputError

FormatName = Literal["csv", "jodie", "dyglib", "snap", "tgb"]


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A named format."""

    layout: Layout
    bipartite: bool = False
    has_companions: bool = False
    """True if features lie in `.npy` files beside the CSV, as DyGLib keeps them."""


PRESETS: dict[FormatName, Preset] = {
    "csv": Preset(layout=Layout()),
    # user_id,item_id,timestamp,state_label,features… ; users and items both count from 0
    "jodie": Preset(
        layout=Layout(
            src="0",
            dst="1",
            time="2",
            label="3",
            features=("4:",),
            delimiter=",",
            header=True,
            names_its_columns=False,
        ),
        bipartite=True,
    ),
    # ,u,i,ts,label,idx ; idx is the row of ml_X.npy, whose row 0 is padding
    "dyglib": Preset(
        layout=Layout(
            src="u", dst="i", time="ts", label="label", feature_row="idx", delimiter=",", header=True
        ),
        has_companions=True,
    ),
    # src dst time, blank separated, comment lines first
    "snap": Preset(layout=Layout(src="0", dst="1", time="2", header=False, comment="#")),
    # edge list with a header: timestamp, src, dst and more, in any order
    "tgb": Preset(layout=Layout(delimiter=",", header=True)),
}


class Companions(NamedTuple):
    """DyGLib's feature files; either may be absent."""

    edge_features: Path | None
    node_features: Path | None


def find_companions(csv_path: Path) -> Companions:
    if csv_path.suffix != ".csv":
        raise InputError(f"{csv_path}: dyglib expects the file ml_NAME.csv; give that one")
    edge = csv_path.with_suffix(".npy")
    node = csv_path.with_name(f"{csv_path.stem}_node.npy")
    return Companions(edge if edge.is_file() else None, node if node.is_file() else None)
