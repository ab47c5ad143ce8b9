"""What the user calls a column — a name, a position, nothing — to a position."""

import re

from tpnet_dist.errors import InputError

ALIASES = {
    "src": ("src", "source", "u", "from", "user_id", "user", "sender"),
    "dst": ("dst", "destination", "target", "i", "v", "to", "item_id", "item", "recipient"),
    "time": ("time", "timestamp", "ts", "t", "unixtime", "date", "datetime", "day"),
}
_PEOPLE = {
    *("user", "customer", "client", "buyer", "shopper", "reader", "viewer", "listener", "visitor"),
    *("reviewer", "member", "person", "author", "editor", "patient", "student", "player"),
}
_THINGS = {
    *("item", "product", "movie", "film", "song", "track", "artist", "book", "page", "article", "video"),
    *("restaurant", "shop", "store", "business", "ad", "advert", "course", "app", "subreddit", "post"),
    *("channel", "game", "hotel", "venue", "place", "recipe", "drug", "job", "repo", "thread", "sku"),
}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def is_of_people(name: str) -> bool:
    """Return whether a name is of people: user_id, UserID and userId all name a user."""
    return bool(_words(name) & _PEOPLE)


def is_of_things(name: str) -> bool:
    return bool(_words(name) & _THINGS)


def _words(name: str) -> set[str]:
    words = {word.lower() for word in _WORDS.findall(name)}
    return words | {word.removesuffix("s") for word in words} | {word.removesuffix("id") for word in words}


class ColumnFinder:
    """Finds columns of one file; `names` are positions as text where the file names none."""

    def __init__(self, where: str, names: list[str], has_names: bool, *, is_kept: bool = False) -> None:
        """`is_kept`: columns are those that the files of a log had."""
        self.where, self.names, self.has_names, self.is_kept = where, names, has_names, is_kept

    def required(self, role: str, column: str | None, default: int) -> int:
        if column is not None:
            return self.position(column, f"--{role}")
        if not self.has_names:
            return self.position(str(default), f"--{role}")
        lowered = [name.lower() for name in self.names]
        for alias in ALIASES[role]:
            if alias in lowered:
                return lowered.index(alias)
        if (pair := self._people_and_things()) and role in pair:
            return pair[role]
        if len(self.names) == 1:
            raise InputError(
                f"{self.where}: has one column, {self.names[0][:40]!r}; if others are in it, say what "
                "separates them with --delimiter, which is one character (sed 's/::/,/g' makes one of two)"
            )
        if "comma_separated_list_of_features" in lowered:
            raise InputError(f"{self.where}: this is JODIE's layout; pass --format jodie")
        raise InputError(
            f"{self.where}: no {role} column among {self.names} (looked for {', '.join(ALIASES[role])}); "
            f"name it with --{role}"
        )

    def _people_and_things(self) -> dict[str, int] | None:
        """Find one column that names users, and another that names what they use."""
        people, things = (
            [place for place, name in enumerate(self.names) if is_of(name)]
            for is_of in (is_of_people, is_of_things)
        )
        is_clear = len(people) == len(things) == 1 and people != things
        return {"src": people[0], "dst": things[0]} if is_clear else None

    def position(self, column: str, flag: str) -> int:
        if column in self.names:
            return self.names.index(column)
        if column.isdigit() and int(column) < len(self.names):
            return int(column)
        kind = "columns" if self.has_names else "columns (no header, so by position from 0)"
        shown = ", ".join(self.names[:12]) + (", …" if len(self.names) > 12 else "")
        raise InputError(
            f"{self.where}: no column {column!r}; the file has {len(self.names)} {kind}: {shown}; "
            f"{'give the columns that the files of the log had' if self.is_kept else f'correct {flag}'}"
        )

    def features(self, columns: tuple[str, ...]) -> tuple[int, ...]:
        positions: list[int] = []
        for column in columns:
            if not (column.endswith(":") and column[:-1].isdigit()):
                positions.append(self.position(column, "--features"))
            elif int(column[:-1]) < len(self.names):
                positions += range(int(column[:-1]), len(self.names))
            else:
                raise InputError(
                    f"{self.where}: --features {column} begins beyond the {len(self.names)} columns; "
                    "correct it"
                )
        return tuple(positions)
