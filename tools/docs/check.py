"""The built site looked at: every link leads somewhere, every page is reached, nothing comes from the network."""

from __future__ import annotations

import os
import sys
import urllib.parse
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

#: Elements whose addresses a browser fetches by itself.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """What one page leads to, fetches, and can be led to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.own: list[str] = []  # links in the page's text, without menus
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self._article = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes addresses and anchors."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        self._article += tag == "article"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
            if self._article:
                self.own.append(given["href"])
        address = given.get(FETCHED.get(tag, ""), "")
        if address and not (tag == "link" and given.get("rel") in ("canonical", "prev", "next")):
            self.fetched.append(address)

    def handle_endtag(self, tag: str) -> None:
        """Leaves the text."""
        self._article -= tag == "article"


class Site:
    """A folder of pages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages: dict[str, Page] = {}
        for path in sorted(folder.rglob("*.html")):
            page = Page()
            page.feed(path.read_text(encoding="utf-8"))
            self.pages[str(path.relative_to(folder))] = page

    def target(self, name: str, href: str) -> tuple[str, str]:
        """The file and the anchor that a link of a page means."""
        path, _, anchor = href.partition("#")
        path = urllib.parse.unquote(path)
        file = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        return (
            os.path.join(file, "index.html") if (self.folder / file).is_dir() else file
        ), urllib.parse.unquote(anchor)

    def faults(self) -> Iterator[str]:
        """What is wrong with it, a sentence each."""
        for name, page in self.pages.items():
            for address in page.fetched:
                if address.startswith(("http:", "https:", "//")):
                    yield f"{name} fetches {address} from the network"
            for href in dict.fromkeys([*page.links, *page.fetched]):
                if name == "404.html" or href.startswith(
                    ("http:", "https:", "mailto:", "data:", "javascript:", "//")
                ):
                    continue
                file, anchor = self.target(name, href)
                if not (self.folder / file).exists():
                    yield f"{name} leads to {href}, which is not there"
                elif anchor and file in self.pages and anchor not in self.pages[file].anchors:
                    yield f"{name} leads to {href}: {file} has no such anchor"
        for name in self.pages:
            if name not in self.clicks and name != "404.html":
                yield f"nothing leads from the index to {name}"

    @property
    def clicks(self) -> dict[str, int]:
        """How many clicks it takes from the index to each page, through the text of pages alone."""
        found, edge = {"index.html": 0}, ["index.html"]
        while edge:
            name = edge.pop(0)
            for href in self.pages[name].own:
                file = self.target(name, href)[0] if "://" not in href else ""
                if file in self.pages and file not in found:
                    found[file] = found[name] + 1
                    edge.append(file)
        return found


def main(folder: Path) -> int:
    """Prints what is wrong with a built site; the result is the exit status."""
    site = Site(folder)
    faults = list(site.faults())
    print(*faults, sep="\n", file=sys.stderr)
    print(f"{len(site.pages)} pages, {sum(len(p.links) for p in site.pages.values())} links, {len(faults)} faults; "
          f"the farthest page is {max(site.clicks.values())} clicks from the index")  # fmt: skip
    return bool(faults)
