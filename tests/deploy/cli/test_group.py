"""Usage errors say what was probably meant; tests/test_mistakes.py has what a person sees."""

from __future__ import annotations

from typing import Any

import click
from click.testing import CliRunner

from deploy.cli.command import cli
from deploy.cli.group import MISSING, OPTIONS, HelpfulGroup
from tests.helpers.command_line import a3cd


@click.group(cls=HelpfulGroup)
def group() -> None:
    pass


@group.command()
@click.argument("thing")
@click.option("--frames")
@click.option("--mode", required=True)
def run(**_: Any) -> None:
    pass


def told(*words: str) -> str:
    result = CliRunner().invoke(group, words)
    assert result.exit_code == 2
    return result.stderr.splitlines()[-1]


def test_what_has_no_cure_is_said_as_click_says_it() -> None:
    assert told("ruin") == "Error: No such command 'ruin'. Did you mean 'run'?"
    assert told("xyzzy") == "Error: No such command 'xyzzy'."
    assert told("run", "--mode", "1").startswith("Error: Missing argument 'THING'.")
    assert told("run", "x").startswith("Error: Missing option '--mode'.")
    assert told("run", "x", "--xyzzy").startswith("Error: No such option '--xyzzy'.")


def test_a_cure_is_one_that_the_command_has() -> None:
    assert told("run", "x", "--steps", "3") == "Error: No such option '--steps': write --frames."
    assert told("run", "x", "--gpu").startswith("Error: No such option '--gpu'."), "it has no --set"
    assert told("run", "x", "--lr", "1").startswith("Error: No such option '--lr'.")


def test_what_is_told_of_is_there() -> None:
    names: set[str] = set()
    cures: set[str] = set()

    def collect(command: click.Command, ctx: click.Context) -> None:
        for param in command.params:
            if param.required:
                called = param.human_readable_name if isinstance(param, click.Argument) else param.opts[0]
                names.update((called, f"{command.name} {called}"))
            cures.update(param.opts)
        if isinstance(command, click.Group):
            for name in command.list_commands(ctx):
                one = command.get_command(ctx, name)
                assert one is not None
                collect(one, ctx)

    collect(cli, click.Context(cli))
    assert set(MISSING) <= names
    assert {cure.partition(" ")[0] for cure in OPTIONS.values()} <= cures
    assert a3cd("train", "--lr=3").stderr.endswith("write --set optimizer.learning_rate=VALUE.\n")
