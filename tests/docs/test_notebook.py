"""docs/library.ipynb has its outputs, and gives them again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "docs" / "library.ipynb"


def cells() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def shown(outputs: list[Any]) -> list[str]:
    """What a reader sees, but for how many steps a training took."""
    texts = ["".join(one.get("text") or one["data"]["text/plain"]) for one in outputs]
    return [re.sub(r"version \d+", "version N", text) for text in texts]


def test_its_outputs_are_kept() -> None:
    assert [cell["execution_count"] for cell in cells()] == list(range(1, len(cells()) + 1))
    assert sum(bool(cell["outputs"]) for cell in cells()) >= 5
    assert not any(one["output_type"] == "error" for cell in cells() for one in cell["outputs"])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
def test_it_runs_and_gives_them_again(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for package in ("ipykernel", "pandas"):
        pytest.importorskip(package)
    notebook = nbformat.read(FILE, 4)
    before = [shown(cell["outputs"]) for cell in cells()]
    client = nbclient.NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    assert [shown(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"] == before
