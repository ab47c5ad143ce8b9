"""What the user calls a column — a name, a position, nothing — to a position."""

from tpnet_dist.errors import InputError

ALIASES = {
    "src": ("src", "source", "u", "from", "user_id", "user", "sender"),
    "dst": ("dst", "destination", "target", "i", "v", "to", "item_id", "item", "recipient"),
    "time": ("time", "timestamp", "ts", "t", "unixtime", "date", "datetime", "day"),
}


class ColumnFinder:
    """Finds columns of one file; `names` are positions as text where the file names none."""

    def __init__(self, where: str, names: list[str], has_names: bool, *, is_kept: bool = False) -> None:
        """`is_kept`: wishes are what the files of a log had."""
        self.where, self.names, self.has_names, self.is_kept = where, names, has_names, is_kept

    def required(self, role: str, wish: str | None, default: int) -> int:
        if wish is not None:
            return self.position(wish, f"--{role}")
        if not self.has_names:
            return self.position(str(default), f"--{role}")
        lowered = [name.lower() for name in self.names]
        for alias in ALIASES[role]:
            if alias in lowered:
                return lowered.index(alias)
        if "comma_separated_list_of_features" in lowered:
            raise InputError(f"{self.where}: this is JODIE's layout; pass --format jodie")
        raise InputError(
            f"{self.where}: no {role} column among {self.names} (looked for {', '.join(ALIASES[role])}); "
            f"name it with --{role}"
        )

    def position(self, wish: str, flag: str) -> int:
        if wish in self.names:
            return self.names.index(wish)
        if wish.isdigit() and int(wish) < len(self.names):
            return int(wish)
        kind = "columns" if self.has_names else "columns (no header, so by position from 0)"
        shown = ", ".join(self.names[:12]) + (", …" if len(self.names) > 12 else "")
        raise InputError(
            f"{self.where}: no column {wish!r}; the file has {len(self.names)} {kind}: {shown}; "
            f"{'give the columns that the files of the log had' if self.is_kept else f'correct {flag}'}"
        )

    def features(self, wishes: tuple[str, ...]) -> tuple[int, ...]:
        positions: list[int] = []
        for wish in wishes:
            if not (wish.endswith(":") and wish[:-1].isdigit()):
                positions.append(self.position(wish, "--features"))
            elif int(wish[:-1]) < len(self.names):
                positions += range(int(wish[:-1]), len(self.names))
            else:
                raise InputError(
                    f"{self.where}: --features {wish} begins beyond the {len(self.names)} columns; correct it"
                )
        return tuple(positions)
