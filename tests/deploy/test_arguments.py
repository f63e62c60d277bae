from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from common.errors import ConfigurationError
from common.host.addresses import Address
from deploy.arguments import AddressType, ListenType, NumberType, RangeType, RunType
from tests.helpers.command_line import a3cd


@pytest.mark.parametrize(("text", "bounds"), [("4", (4, 4)), ("1", (1, 1)), ("2..8", (2, 8)), ("3..3", (3, 3))])
def test_a_range_of_actors(text: str, bounds: tuple[int, int]) -> None:
    assert RangeType().convert(text, None, None) == bounds


@pytest.mark.parametrize("text", ["", "0", "-1", "0..4", "8..2", "many", "..4", "2..x", "2...4", "1.5"])
def test_what_is_no_range_of_actors(text: str) -> None:
    with pytest.raises(click.BadParameter, match="range"):
        RangeType().convert(text, None, None)


def test_an_address() -> None:
    assert AddressType().convert("tcp://gpu-box:6000", None, None) == Address("gpu-box", 6000)
    assert AddressType().convert("gpu-box", None, None) == Address("gpu-box", 5555)
    assert AddressType(connect=False).convert("tcp://*:0", None, None) == Address("*", 0)


@pytest.mark.parametrize("text", ["tcp://*:5555", "tcp://host:0", "http://host:1", "host:99999"])
def test_what_is_no_address_to_connect_to(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"address|above 65535"):
        AddressType().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("9000", "127.0.0.1", 9000),
        (":9000", "127.0.0.1", 9000),
        ("0", "127.0.0.1", 0),
        ("localhost:0", "localhost", 0),
        ("localhost:08080", "localhost", 8080),
        ("0.0.0.0", "0.0.0.0", 9464),
        ("[::1]:9000", "[::1]", 9000),
        ("http://localhost:9000/", "localhost", 9000),
        ("*", "*", 9464),
    ],
)
def test_where_to_listen(text: str, host: str, port: int) -> None:
    assert ListenType(9464).convert(text, None, None) == Address(host, port)


@pytest.mark.parametrize(
    "text", ["", "a b", "localhost:x", "localhost:99999", "99999", "localhost:", "localhost:*", "https://h:1"]
)
def test_nowhere_to_listen(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"write HOST:PORT, as in 127\.0\.0\.1:9464"):
        ListenType(9464).convert(text, None, None)


def test_defaults_are_taken_as_they_are() -> None:
    @click.command()
    @click.option("--bind", type=AddressType(connect=False), default=Address("*", 7))
    @click.option("--actors", type=RangeType(), default=(2, 3))
    def command(bind: Address, actors: tuple[int, int]) -> None:
        click.echo(f"{bind} {actors}")

    assert CliRunner().invoke(command).output == "tcp://*:7 (2, 3)\n"


def test_a_run_by_its_folder_or_as_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    newest = tmp_path / "runs" / "x"
    newest.mkdir(parents=True)
    (newest / "run.json").write_text('{"run": "0123456789abcdef", "created": "", "epoch": 1, "a3cd": "0.2.0"}')
    assert RunType().convert("last", None, None) == Path("runs/x")
    assert RunType().convert("runs/x", None, None) == Path("runs/x")
    with pytest.raises(ConfigurationError, match="there is no such folder"):
        RunType().convert("y", None, None)


def test_a_module_may_be_named_by_its_file(stand: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stand("actor.daemon.run")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "envs.py").touch()
    assert a3cd("actor", "localhost", "--allow-module", "envs.py", "--allow-module", "a.nets").exit_code == 0
    assert run.options["modules"] == ("envs", "a.nets")
    refused = a3cd("actor", "localhost", "--allow-module", "env.py")
    assert refused.exit_code == 2
    assert f"there is no file {tmp_path / 'env.py'}; did you mean envs.py?" in refused.stderr


@pytest.mark.parametrize(
    ("whole", "text", "number"),
    [(True, "1e6", 1_000_000), (True, "1_000", 1000), (True, "-5", -5), (False, "1.5", 1.5), (False, "1e-3", 0.001)],
)
def test_a_number_is_taken_as_a_person_writes_it(whole: bool, text: str, number: float) -> None:
    found = NumberType(whole, "7").convert(text, None, None)
    assert (found, type(found)) == (number, int if whole else float)


@pytest.mark.parametrize(("whole", "text"), [(True, "1.5"), (True, "inf"), (True, "nan"), (True, "x"), (False, "1m")])
def test_what_is_no_number_is_answered_with_one(whole: bool, text: str) -> None:
    with pytest.raises(click.BadParameter, match="write it in full, as in 7"):
        NumberType(whole, "7").convert(text, None, None)
