"""docs/tutorials/: each page is followed by a test, and the settings that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from common.settings.sections import SECTIONS
from tests.helpers.tutorial import FOLDER, Command, Edit, File, Program, read

TESTS = Path(__file__).parents[1]
PAGES = sorted(FOLDER.glob("*.md"))
SETTINGS = {f"{name}.{key}" for name, section in SECTIONS.items() for key in section.__struct_fields__}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_test_follows_it(page: Path) -> None:
    followed = [(TESTS / file).read_text() for file in ("system/test_tutorials.py", "hosts/test_tutorial.py")]
    assert any(f'steps("{page.stem}")' in text for text in followed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_settings_exist(page: Path) -> None:
    named = set(re.findall(rf"`((?:{'|'.join(SECTIONS)})\.\w+)", page.read_text(encoding="utf-8")))
    assert named <= SETTINGS


def test_a_page_becomes_steps() -> None:
    text = """
`a/b.toml`, with settings:

```toml
x = 1
```

On `lab-01` first, as in `a3cd status`:

    a3cd status here  # now
    error: no ... here
    a3cd runs

```python
print(1)
```

```diff
 a/b.toml
 y = 2
-x = 1
+x = 3
```
"""
    assert read(text) == [
        File("a/b.toml", "x = 1\n"),
        Command("a3cd status here  # now", "lab-01", ("error: no ... here",)),
        Command("a3cd runs", "lab-01"),
        Program("print(1)\n"),
        Edit("a/b.toml", "y = 2\nx = 1", "y = 2\nx = 3"),
    ]
