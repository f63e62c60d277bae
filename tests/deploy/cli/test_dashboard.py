"""The command's mistakes and cures; tests/system/test_dashboard.py has it at work."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from common.errors import EXIT_CONFIGURATION, EXIT_TRY_LATER, EXIT_USAGE, ConfigurationError
from deploy.cli.dashboard import read_password
from tests.deploy.dashboard.test_folder import run_folder
from tests.helpers.command_line import a3cd

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def password(folder: Path, text: str = "open sesame\n", mode: int = 0o600) -> Path:
    file = folder / "password"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_nowhere_to_listen() -> None:
    result = a3cd("dashboard", "localhost", "--listen", "localhost:x")
    assert result.exit_code == EXIT_USAGE
    assert "write HOST:PORT, as in 127.0.0.1:8265" in result.stderr


def test_nothing_to_watch() -> None:
    assert a3cd("dashboard").exit_code == EXIT_USAGE


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("runs/none", "write tcp://HOST:PORT"),
        ("gpu-box:99999", "port 99999 is above 65535"),
        (300 * "x" + "/none", "write tcp://HOST:PORT"),
    ],
)
def test_neither_a_folder_nor_a_learner(text: str, why: str) -> None:
    result = a3cd("dashboard", text)
    assert result.exit_code == EXIT_USAGE
    assert f"{text} is no run folder, and no learner: " in result.stderr
    assert why in result.stderr


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "bokeh", None)
    assert a3cd("dashboard", "localhost").exit_code == EXIT_CONFIGURATION
    assert "a3cd dashboard needs bokeh, which is not installed here: pip install 'a3cd[dashboard]'" in caplog.text


class TestMistakes:
    @pytest.fixture(autouse=True)
    def _extra(self) -> None:
        pytest.importorskip("bokeh")

    def test_a_folder_without_a_run(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        assert a3cd("dashboard", tmp_path).exit_code == EXIT_CONFIGURATION
        assert "holds no run" in caplog.text

    def test_a_port_in_use(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        run_folder(tmp_path)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            assert a3cd("dashboard", tmp_path, "--listen", port).exit_code == EXIT_TRY_LATER
        assert "is in use: stop what listens there, or choose another port with --listen" in caplog.text

    def test_an_address_of_another_machine(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        words = ("--listen", "192.0.2.1:0", "--password-file", password(tmp_path))
        assert a3cd("dashboard", run_folder(tmp_path), *words).exit_code == EXIT_CONFIGURATION
        assert "cannot listen on tcp://192.0.2.1" in caplog.text

    def test_beyond_this_machine_only_with_a_password(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        for where in ("0.0.0.0", "192.0.2.1", "[::]", "*"):
            assert a3cd("dashboard", run_folder(tmp_path), "--listen", where).exit_code == EXIT_CONFIGURATION
        assert "is open to the network: give a --password-file" in caplog.text

    def test_a_learner_without_a_credential(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        assert a3cd("dashboard", "gpu-box", "--keys", tmp_path).exit_code == EXIT_CONFIGURATION
        assert "no credential for the learner at tcp://gpu-box:5555" in caplog.text

    def test_a_learner_that_nobody_answers_for(self, caplog: pytest.LogCaptureFixture) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            where = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
            result = a3cd("dashboard", where, "--listen", "127.0.0.1:0", "--timeout", "0.5")
        assert result.exit_code == EXIT_TRY_LATER
        assert f"no learner answers at {where} (waited 0.5 s): is it running there?" in caplog.text


def test_the_password_is_the_first_line(tmp_path: Path) -> None:
    assert read_password(password(tmp_path, "correct horse \r\nnot this\n")) == "correct horse "


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("open sesame", 0o644, "is open to others: chmod 600"),
        ("short\n", 0o600, "needs 8 characters or more"),
        ("", 0o600, "needs 8 characters or more"),
    ],
)
def test_no_password(tmp_path: Path, text: str, mode: int, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        read_password(password(tmp_path, text, mode))


def test_a_password_file_that_is_no_text_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_password(tmp_path / "none")
    file = password(tmp_path)
    file.write_bytes(b"\xff\xfe\xfd open sesame")
    with pytest.raises(ConfigurationError, match="is no text"):
        read_password(file)
