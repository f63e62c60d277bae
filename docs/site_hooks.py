"""What mkdocs.yml lacks: the pages that are outside of docs/, links between both, and nothing from the internet."""

from __future__ import annotations

import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTSIDE = {"README.md": "index.md", "deploy/README.md": "deploy.md"}
"""Files of the tree that are pages, too, and what they are called on the site."""
_LINK = re.compile(r"(!?)\[([^]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_LOADING = {("link", "href"), ("a", "ping"), ("form", "action")}
"""Attributes, besides every `src`, of which a browser asks for something by itself or sends something to."""
_LOADED_BY_STYLE = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, name in OUTSIDE.items():
        files.append(File.generated(config, name, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    return relinked(markdown, page.file.src_uri)


def relinked(markdown: str, name: str) -> str:
    """The page `name` of the site: links to other pages lead there; of links to other files of the tree, which the site
    does not have, the words are left. Whatever leads nowhere stays as it is, for mkdocs to refuse."""
    places = {page: path for path, page in OUTSIDE.items()}
    here = posixpath.dirname(places.get(name, f"docs/{name}"))

    def link(found: re.Match[str]) -> str:
        picture, words, target, anchor = found[1], found[2], found[3], found[4] or ""
        if not target or urlsplit(target).scheme:
            return found[0]
        path = posixpath.normpath(posixpath.join(here, target))
        page = OUTSIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else "")
        if not page:
            return words if (ROOT / path).exists() else found[0]
        return f"{picture}[{words}]({posixpath.relpath(page, posixpath.dirname(name) or '.')}{anchor})"

    return _LINK.sub(link, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    found = {str(file): outside(file) for file in sorted(Path(config.site_dir).rglob("*")) if file.is_file()}
    if loading := [f"{file}: {address}" for file, addresses in found.items() for address in addresses]:
        raise PluginError("these pages load something from outside of the site:\n" + "\n".join(loading))


def outside(file: Path) -> list[str]:
    """Addresses on other hosts of what a browser would load for this file, which may be of any kind."""
    if file.suffix == ".css":
        return _LOADED_BY_STYLE.findall(file.read_text(encoding="utf-8"))
    if file.suffix not in (".html", ".svg"):
        return []
    text = file.read_text(encoding="utf-8")
    reader = _Loaded()
    reader.feed(text)
    return [address for address in reader.addresses if urlsplit(address).netloc] + _LOADED_BY_STYLE.findall(text)


class _Loaded(HTMLParser):
    """Notes the addresses of what a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.addresses += [
            value for name, value in attrs if value and (name in ("src", "srcset") or (tag, name) in _LOADING)
        ]
