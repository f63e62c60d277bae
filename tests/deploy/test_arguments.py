from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from common.host.addresses import Address
from deploy.arguments import AddressType, RangeType


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


def test_defaults_are_taken_as_they_are() -> None:
    @click.command()
    @click.option("--bind", type=AddressType(connect=False), default=Address("*", 7))
    @click.option("--actors", type=RangeType(), default=(2, 3))
    def command(bind: Address, actors: tuple[int, int]) -> None:
        click.echo(f"{bind} {actors}")

    assert CliRunner().invoke(command).output == "tcp://*:7 (2, 3)\n"
