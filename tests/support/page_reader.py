"""Read a page as a browser would, strictly: tags close, ids are unique, links lead somewhere."""

from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "link", "wbr"}


class Page(HTMLParser):
    """Its texts, tags and attributes; fails on what is not well-formed."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        """All that is read, in order."""
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def values(self, attribute: str) -> list[str]:
        return [value for _, each in self.tags if (value := each.get(attribute)) is not None]


def read_page(path: Path) -> Page:
    """A page that needs nothing but itself."""
    content = path.read_text(encoding="utf-8")
    assert content.startswith("<!doctype html>")
    page = Page(content)
    ids = page.values("id")
    assert len(set(ids)) == len(ids)
    assert {link.removeprefix("#") for link in page.values("href")} <= {*ids, "data:,"}
    assert page.values("src") == []
    assert page.all("script") == []
    assert "url(" not in content
    assert "nan" not in " ".join(
        value for name in ("points", "cx", "cy", "x", "y") for value in page.values(name)
    )
    return page
