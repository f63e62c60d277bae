from __future__ import annotations

import hashlib
import json
from pathlib import Path

from deploy.install.step import Absent, Command, File, Folder, at, digest_of, names_of


def test_steps_are_plain_data() -> None:
    steps = [Folder("/a", 0o711), File("/b", b"x"), Absent("/c"), Command("d", ["run", at("/e")], {"exists": "/f"})]
    plain = json.loads(json.dumps([step.plain() for step in steps]))
    assert [step["kind"] for step in plain] == ["folder", "file", "absent", "command"]
    assert [step["name"] for step in plain] == names_of(steps) == ["folder /a", "file /b", "no /c", "d"]
    assert plain[3]["argv"] == ["run", {"path": "/e"}]


def test_content(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"four")
    for source in (b"four", path, lambda: b"four"):
        file = File("/x", source)
        assert file.digest == hashlib.sha256(b"four").hexdigest()
        with file.content() as (content, length):
            assert (content.read(), length) == (b"four", 4)


def test_what_is_kept_is_made_only_when_it_is_sent() -> None:
    made = []

    def make() -> bytes:
        made.append(1)
        return b"secret"

    file = File("/x", make, keep=True)
    assert file.plain()["digest"] == ""
    assert "secret" not in repr(file)
    assert made == []
    with file.content() as (content, _):
        assert content.read() == b"secret"


def test_digest_of_steps() -> None:
    assert digest_of([File("/x", b"1")]) == digest_of([File("/x", b"1")])
    assert (
        len({digest_of([step]) for step in (File("/x", b"1"), File("/x", b"2"), File("/y", b"1"), Absent("/x"))}) == 4
    )
