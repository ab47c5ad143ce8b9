"""Hostile input, drawn by hypothesis: raw files, damage to stored files, settings."""

import json
from typing import Any

from hypothesis import strategies as st

from tpnet_dist.config.keys import config_keys
from tpnet_dist.files.stored_json import sealed

SNIPPETS = [
    *(b'"', b'""', b'"\n', b"\n", b"\r", b"\r\n", b"\n\n\n", b",", b",,", b";", b"\t", b" ", b"\0", b"\xff"),
    *(b"\xef\xbb\xbf", b"\xc3\xa9", b"\x1b[31m", b"\xe2\x80\xae", b"nan", b"inf", b"-1", b"1e999", b"0x10"),
    *(b"9" * 25, b"9" * 400, b"1.5", b"2024-01-31", b"null", b"src,dst,time\n", b"#", b"'", b"\\", b"=1+1"),
]
WEIRD = [
    *("", " ", "0", "-1", "1", "2", "nan", "inf", "1e308", "1e-308", "9" * 30, str(2**63 - 1), "auto"),
    *("true", "False", "x", "[]", "{}", "1,2", "1 2", "../..", "/dev/null", "\x1b[31m", "é", "a" * 5000),
]
OTHER_FILES = [b"{}", b"[]", b"null", b"PAR1PAR1", b"\x93NUMPY", b"[" * 5000, b"PK\3\4", b"\x80\2."]
JSON_WEIRD: list[Any] = [
    *(None, True, 0, -1, 1, 1.5, 10**30, -(10**30), 1e308, float("nan"), float("inf"), "", "x", "../x"),
    *([], [None], {}, {"a": 1}, [[[]]], "9" * 100),
]
TOML_WEIRD = [
    *("1", "-1", "0", "1.5", "nan", "inf", '"x"', '""', "true", "[]", "[1]", "[[]]", "{a=1}", "9" * 30),
    *("2024-01-31", "[" * 3000, "1979-05-27T07:32:00Z", "0xFF", "1e400"),
]
ELSEWHERE = {"data.folder", "training.continue_from", "model.weights"}
"""Settings that name folders."""
DAMAGES = ("bit", "cut", "longer", "zeros", "noise", "swapped", "empty", "other", "mutated")


@st.composite
def raw_texts(draw: st.DrawFn) -> bytes:
    """An event log with a further column, quoted and ended in all manners; then damaged, or not."""
    ids = st.one_of(st.integers(0, 9).map(str), st.sampled_from(["ann", "bob", "a b", "é", "007", '"q,uo"']))
    notes = st.sampled_from(["", "x", '"a,b"', '"a\nb"'])
    rows = draw(st.lists(st.tuples(ids, ids, st.integers(0, 3), notes), max_size=12))
    end = draw(st.sampled_from(["\n", "\r\n", "\n\n"]))
    time, lines = 0, ["src,dst,time,note"]
    for src, dst, step, note in rows:
        time += step
        lines.append(f"{src},{dst},{time},{note}")
    text = end.join(lines) + draw(st.sampled_from(["", end]))
    return draw(mutated(text.encode()))


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with up to three pieces cut out, doubled or replaced; or as it is."""
    for _ in range(draw(st.integers(0, 3))):
        first = draw(st.integers(0, len(content)))
        last = draw(st.integers(first, min(len(content), first + 40)))
        twice = st.just(content[first:last] * 2)
        new = draw(st.one_of(st.sampled_from(SNIPPETS), st.binary(max_size=8), twice))
        content = content[:first] + new + content[last:]
    return content


@st.composite
def damages(draw: st.DrawFn, content: bytes) -> bytes:
    """A file as a disk, a killed copy or a hand may leave it."""
    place = draw(st.integers(0, max(0, len(content) - 1)))
    kind = draw(st.sampled_from(DAMAGES))
    before, after = content[:place], content[place:]
    if kind == "bit":
        return before + bytes([after[0] ^ 1 << draw(st.integers(0, 7))]) + after[1:]
    if kind == "cut":
        return before
    if kind == "longer":
        return content + draw(st.binary(min_size=1, max_size=64))
    if kind == "zeros":
        count = min(len(after), draw(st.sampled_from([1, 2, 16, 512, 4096])))
        return before + bytes(count) + after[count:]
    if kind == "noise":
        return before + draw(st.binary(min_size=1, max_size=32)) + after[32:]
    if kind == "swapped":
        return after + before
    if kind == "mutated":
        return draw(mutated(content))
    return b"" if kind == "empty" else draw(st.sampled_from(OTHER_FILES))


@st.composite
def tampered_json(draw: st.DrawFn, content: bytes) -> bytes:
    """An object with a value of another kind somewhere, and a checksum that vouches for it."""
    stored = json.loads(content)
    inner: Any = stored
    while True:
        key = draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner))))
        if not (isinstance(inner[key], dict | list) and inner[key] and draw(st.booleans())):
            break
        inner = inner[key]
    if draw(st.booleans()) or isinstance(inner, list):
        inner[key] = draw(st.sampled_from(JSON_WEIRD))
    else:
        del inner[key]
    stored.pop("checksum", None)
    return json.dumps(sealed(stored)).encode()


def settings_args() -> st.SearchStrategy[list[str]]:
    """Flags of the command line with values that fit, or do not."""
    keys = st.sampled_from(sorted(set(config_keys("tpnet")) - ELSEWHERE)).map(lambda key: f"--{key}")
    values = st.one_of(st.sampled_from(WEIRD), st.integers(-3, 300).map(str), st.floats(width=32).map(str))
    pairs = st.lists(st.tuples(keys, values), min_size=1, max_size=3)
    return pairs.map(lambda found: [arg for pair in found for arg in pair])


@st.composite
def settings_files(draw: st.DrawFn) -> bytes:
    """TOML with known keys and strange values, mutated now and then."""
    known = sorted(set(config_keys("tpnet")) - ELSEWHERE)
    keys = draw(st.lists(st.sampled_from(known), max_size=4, unique=True))
    text = "\n".join(f"{key} = {draw(st.sampled_from(TOML_WEIRD))}" for key in keys)
    return draw(mutated(text.encode()))
