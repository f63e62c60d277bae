"""All pages: links lead somewhere, and the site's navigation has each page; so says `make docs`, with mkdocs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("deploy/**/*.md"), *ROOT.glob("docs/**/*.md")]


@cache
def tokens(page: Path) -> list[Token]:
    return MarkdownIt("gfm-like", {"linkify": False}).parse(page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """Relative ones, and those of pictures."""
    inline = [child for token in tokens(page) for child in token.children or ()]
    found = [str(child.attrGet("href") or child.attrGet("src") or "") for child in inline]
    return [link for link in found if link and not urlsplit(link).scheme]


@cache
def anchors(page: Path) -> set[str]:
    """Of headings, as a code host names them."""
    heads = [after for head, after in zip(tokens(page), tokens(page)[1:], strict=False) if head.type == "heading_open"]
    texts = ["".join(child.content for child in head.children or ()) for head in heads]
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def test_each_link_leads_somewhere() -> None:
    lost, count = [], 0
    for page in PAGES:
        for link in links(page):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            count += 1
            if not target.exists() or (anchor and anchor not in anchors(target)):
                lost.append(f"{page.relative_to(ROOT)}: {link}")
    assert lost == []
    assert count > 80


def test_the_navigation_has_each_page() -> None:
    _, _, nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")
    named = re.findall(r"[\w/-]+\.md$", nav, re.MULTILINE)
    assert sorted(named) == sorted(
        ["index.md", "deploy.md", *(page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/**/*.md"))]
    )
