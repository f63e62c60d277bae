"""Draw docs/panel.svg from a run that is going on: python docs/make_panel.py [tcp://localhost:5555] [SECONDS]."""

from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path

from rich.console import Console

from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from deploy.cli.observer import Observer
from deploy.cli.view.panel import WIDTH, render
from deploy.cli.view.progress import History


def main(address: str = "tcp://localhost:5555", seconds: str = "60") -> None:
    history = History()
    status = None
    until = time.monotonic() + float(seconds)
    with Observer(LearnerEndpoint(Address.parse(address))) as observer:
        while status is None or time.monotonic() < until:
            status = observer.next(1.0) or status
            if status is not None:
                history.add(status)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(render(status, history.returns))
    # Without rich's web fonts: a picture in a document fetches nothing.
    drawn = re.sub(r"\s*@font-face \{.*?\n\s*\}", "", console.export_svg(title="a3cd train"), flags=re.DOTALL)
    Path(__file__).with_name("panel.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
