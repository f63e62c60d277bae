"""A picture of a dashboard that runs.

    python -m docs.make_dashboard URL[#actors] docs/OUT.png WIDTH HEIGHT [dark] [beside]

dark: in the dark theme. beside: with the curves of all runs.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

from PIL import Image

from tests.helpers.browser import browser, paints

SECONDS = 3.0
"""Until all curves are drawn."""


def main(url: str, out: str, width: str, height: str, *words: str) -> None:
    with browser() as page:
        page.resize(int(width), int(height), dark="dark" in words)
        page.command("Emulation.setScrollbarsHidden", hidden=True)
        page.open(url)
        print(f"first paint after {paints(page):.0f} ms", end=", ")
        page.wait("document.body.dataset.ready")
        print(f"figures after {page.script('return performance.now()'):.0f} ms", end=", ")
        page.wait("Number(document.querySelector('#charts').dataset.points) > 0", "curves")
        print(f"curves after {page.script('return performance.now()'):.0f} ms")
        if "beside" in words:
            page.script("document.querySelectorAll('#beside input').forEach((box) => box.click())")
        time.sleep(SECONDS)
        page.script("document.querySelector(location.hash || 'header').scrollIntoView()")
        picture = Image.open(io.BytesIO(page.picture())).convert("RGB").quantize(256, kmeans=1)
    picture.save(Path(out), optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
