"""What the commands of `a3cd` have in common: argument types and options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from common.addresses import Address
from common.errors import A3cdError


class AddressType(click.ParamType[Address]):
    """tcp://host:port on the command line; `connect`: one that a peer can connect to."""

    name = "address"

    def __init__(self, connect: bool = True) -> None:
        """Of a learner to connect to, or to listen on."""
        self.connect = connect

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """Refuses what is no address with exit code 2."""
        try:
            address = value if isinstance(value, Address) else Address.parse(value)
            return address.to_connect() if self.connect else address
        except A3cdError as error:
            self.fail(str(error), param, ctx)


class RangeType(click.ParamType[tuple[int, int]]):
    """N or MIN..MAX actors."""

    name = "N|MIN..MAX"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Refuses what is no range of at least one actor with exit code 2."""
        if isinstance(value, tuple):
            return value
        least, _, most = str(value).partition("..")
        try:
            bounds = int(least), int(most or least)
        except ValueError:
            self.fail(f"{value!r}: write a number, as in 4, or a range, as in 2..8", param, ctx)
        if not 1 <= bounds[0] <= bounds[1]:
            self.fail(f"{value!r}: the range is from at least 1 up to at least as many", param, ctx)
        return bounds


lifeline_option = click.option("--lifeline", is_flag=True, hidden=True, help="End when standard input is closed.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
set_option = click.option(
    "--set", "assignments", multiple=True, metavar="SECTION.KEY=VALUE", help="Any run setting; may be repeated."
)


run_argument = click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path, file_okay=False))
sampled_option = click.option("--sampled", is_flag=True, help="Draw actions from the policy instead of its greatest.")
newest_option = click.option("--newest", is_flag=True, help="The newest checkpoint instead of the best.")
max_steps_option = click.option(
    "--max-steps", type=click.IntRange(1), default=100_000, show_default=True, help="Longest episode."
)
