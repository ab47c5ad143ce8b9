"""Which columns of a file are which: as the command says, as the log's own files had them, or by default."""

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tpnet_dist.errors import InputError
from tpnet_dist.events.preparation import Preparation, TextForm
from tpnet_dist.prediction.link_formats import open_input

Role = Literal["src", "dst", "time"]
DEFAULTS: dict[Role, str] = {"src": "src", "dst": "dst", "time": "time"}
_HEAD_BYTES = 1 << 20


@dataclass(frozen=True)
class GivenColumns:
    """What is known of a file's columns before it is opened."""

    src: str | None = None
    dst: str | None = None
    time: str | None = None
    preparation: Preparation | None = None
    """The preparation of the log that the model was trained on."""

    def find(self, role: Role, names: list[str]) -> str | None:
        """Its name in this file; None if it has no such column."""
        said: str | None = getattr(self, role)
        if said is not None:
            return said if said in names else None
        own: str | None = getattr(self.preparation, role) if self.preparation else None
        return next((name for name in (own, DEFAULTS[role]) if name is not None and name in names), None)

    def wanted(self, role: Role) -> str:
        """What it is called, for a refusal."""
        said: str | None = getattr(self, role)
        own: str | None = getattr(self.preparation, role) if self.preparation else None
        # a log whose files had no header has positions, which mean nothing in a file with one
        return said or (own if own and not own.isdigit() else DEFAULTS[role])

    def text_form(self, path: Path) -> tuple[TextForm, list[str] | None]:
        """How a text file is written, and names of its columns if its header does not tell them: as the log's
        own files were, if it looks like them, else comma separated with a header."""
        default = TextForm(delimiter=",", has_header=True)
        own = self.preparation.text if self.preparation else None
        if own is None or self.preparation is None:
            return default, None
        fields = _first_fields(path, own)
        columns = list(self.preparation.columns)
        is_by_position = columns[0].isdigit()
        known = GivenColumns(self.src, self.dst, self.time) if is_by_position else self
        have_names = any(known.find(role, fields) is not None for role in ("src", "dst"))
        if not is_by_position or have_names:
            if have_names:
                return replace(own, has_header=True), None
            return default, None
        return (own, columns) if len(fields) == len(columns) or own.has_header else (default, None)


def _first_fields(path: Path, form: TextForm) -> list[str]:
    """Return the fields of the first line that is no comment."""
    try:
        with open_input(path) as stream:
            head = stream.read(_HEAD_BYTES).decode("utf-8-sig", errors="replace")
    except OSError:
        return []  # whoever reads it says why
    lines = [line for line in head.splitlines() if not (form.comment and line.startswith(form.comment))]
    try:
        first = next(csv.reader(lines, delimiter=form.delimiter), [])
    except csv.Error as error:
        raise InputError(f"{path}: its first line cannot be parsed ({error}); correct its quoting") from error
    return [field.strip() for field in first]
