"""The site of docs/: built as `make docs` builds it, and refused for what leads nowhere or outside."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest
from markdown_it import MarkdownIt

from tests.helpers.browser import browser, missing

pytestmark = pytest.mark.slow

pytest.importorskip("material", reason="needs the extra docs")
ROOT = Path(__file__).parents[2]
BLOCKS = ("h1", "h2", "h3", "h4", "table", "tr", "li", "pre", "code", "strong", "em", "img", "blockquote")


def build(folder: Path, site: Path) -> str:
    """What mkdocs complains of; empty: it built the site. As in the Makefile: with --quiet, nothing would be strict."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    quiet = {"NO_MKDOCS_2_WARNING": "1", "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=quiet, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert build(ROOT, folder) == ""
    return folder


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Blocks(HTMLParser):
    """How many there are of each kind."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.counts[tag] += tag in BLOCKS


def test_a_page_has_on_the_site_what_it_has_on_a_code_host(site: Path, hooks: ModuleType) -> None:
    """Two dialects of Markdown, which differ in lists and code that follow a line of text."""
    pages = {path.relative_to(ROOT / "docs").as_posix(): path for path in (ROOT / "docs").rglob("*.md")}
    pages |= {name: ROOT / path for path, name in hooks.OUTSIDE.items()}
    assert len(pages) >= 20
    for name, source in pages.items():
        html = (site / name).with_suffix(".html").read_text(encoding="utf-8")
        (article,) = re.findall(r"<article.*?</article>", html, re.DOTALL)
        hosted = MarkdownIt("gfm-like", {"linkify": False}).render(source.read_text(encoding="utf-8"))
        assert Blocks(article).counts == Blocks(hosted).counts, name


@pytest.mark.parametrize(
    ("page", "before", "after"),
    [
        ("index.md", "[a](docs/operating.md#keys)", "[a](operating.md#keys)"),
        ("index.md", "![a](docs/curve.png)", "![a](curve.png)"),
        ("index.md", "[a](deploy/README.md)", "[a](deploy.md)"),
        ("deploy.md", "[a](../docs/monitoring.md)", "[a](monitoring.md)"),
        ("monitoring.md", "see [its files](../deploy/monitoring/).", "see its files."),
        ("tutorials/x.md", "[a](../operating.md#keys), [b](y.md)", "[a](../operating.md#keys), [b](y.md)"),
        ("tutorials/x.md", "[a](../../README.md)", "[a](../index.md)"),
        (
            "x.md",
            "[a](../nothing.md), [b](#c), [d](https://e.org/f)",
            "[a](../nothing.md), [b](#c), [d](https://e.org/f)",
        ),
    ],
)
def test_links_between_docs_and_the_tree(hooks: ModuleType, page: str, before: str, after: str) -> None:
    assert hooks.relinked(before, page) == after


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.html", '<script src="https://x.org/a.js"></script>', ["https://x.org/a.js"]),
        ("a.html", '<img src="//x.org/a.png"><link rel="preconnect" href="https://y.org">', ["//x.org/a.png", "https://y.org"]),
        ("a.html", '<style>@import "https://x.org/a.css";</style>', ["https://x.org/a.css"]),
        ("a.html", '<a href="https://x.org">x</a><img src="a.png"><img src="data:image/png;base64,">', []),
        ("a.css", "a { background: url(https://x.org/a.png) } b { background: url('a.png') }", ["https://x.org/a.png"]),
        ("a.js", "'https://x.org'", []),
    ],
)  # fmt: skip
def test_what_a_page_loads_from_outside(
    hooks: ModuleType, tmp_path: Path, name: str, text: str, found: list[str]
) -> None:
    (tmp_path / name).write_text(text)
    assert hooks.outside(tmp_path / name) == found


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[x](nothing.md)", "contains a link 'nothing.md', but the target is not found"),
        ("[x](operating.md#nothing)", "does not contain an anchor '#nothing'"),
        ("[x](../nothing.py)", "contains a link '../nothing.py', but the target is not found"),
        ('<img src="https://x.org/a.png">', "load something from outside of the site:\n"),
        ("nothing but a page", "are not included in the \"nav\" configuration:\n  - zebra.md"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    for name in ("mkdocs.yml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    page = "zebra.md" if "nothing but" in text else "security.md"
    with (tmp_path / "docs" / page).open("a") as file:
        file.write(f"\n\n{text}\n")
    assert complaint in build(tmp_path, tmp_path / "site")


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@missing
@pytest.mark.system
def test_a_browser_finds_a_word_and_asks_nobody_else(address: str) -> None:
    with browser() as page:
        page.resize(1280, 900, dark=True)
        # With a word to search for; the page has the diagram for which mkdocs-material would ask outside.
        page.open(f"{address}/protocol.html?q=quarantined")
        page.wait("document.querySelector('.md-search-result a')?.href", "something found")
        asked = page.script("return performance.getEntriesByType('resource').map(one => one.name)")
        assert len(asked) > 3
        assert [one for one in asked if not one.startswith((f"{address}/", "data:"))] == []
        assert page.errors() == []
        page.wait("document.body.getAttribute('data-md-color-scheme') == 'slate'")
