"""A small raw file that converts, and the refusal of one that does not."""

from pathlib import Path

from tests.support.command_line import refusal

GOOD = "src,dst,time\n1,2,10\n2,3,11\n3,1,12\n"


def refuse(tmp_path: Path, text: str | bytes, *flags: str, name: str = "log.csv", **options: object) -> str:
    """Convert `text`, expect a refusal, and check that no output of any kind is left."""
    raw = tmp_path / name
    raw.write_bytes(text.encode() if isinstance(text, str) else text)
    before = set(tmp_path.iterdir())
    sentence = refusal("convert", raw, tmp_path / "out", *flags, **options)
    assert set(tmp_path.iterdir()) == before
    assert str(raw) in sentence or str(tmp_path / "out") in sentence or sentence.startswith("--")
    return sentence
