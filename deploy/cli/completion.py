"""`a3cd completion`: what a shell needs to complete the command line of a3cd."""

import os
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

NAME = "a3cd"
VARIABLE = "_A3CD_COMPLETE"
"""Environment variable that a shell sets when it asks for completions; click looks for it."""
SHELLS = {
    "bash": '~/.bashrc: eval "$(a3cd completion bash)"',
    "zsh": '~/.zshrc: eval "$(a3cd completion zsh)"',
    "fish": "~/.config/fish/completions/a3cd.fish: a3cd completion fish | source",
}
"""Shells, each with the file and the line in it that turns completion on."""


BREAKS = frozenset("=:")
"""Characters that are words of their own to bash."""


class Bash(BashComplete):
    """Completion for bash, which takes `section.key=value` and `file.py:Class` for three words each, and replaces only
    the last of them."""

    source_template = BashComplete.source_template.replace(
        "COMPREPLY+=($value)", 'COMPREPLY+=("$value")\n            [[ $value == *= ]] && compopt -o nospace'
    )

    def source(self) -> str:
        return self.source_template % self.source_vars()  # click's own would first ask which bash this host has

    def get_completion_args(self) -> tuple[list[str], str]:
        words, at = split_arg_string(os.environ["COMP_WORDS"]), int(os.environ["COMP_CWORD"])
        whole: list[str] = []
        glued = False
        for word in (*words[1:at], words[at] if at < len(words) else ""):
            breaks = bool(word) and set(word) <= BREAKS
            if whole and (breaks or glued):
                whole[-1] += word
            else:
                whole.append(word)
            glued = breaks
        *before, incomplete = whole
        value = incomplete.partition("=")[2] if incomplete.startswith("-") else incomplete
        self._kept = value[: max(value.rfind(one) for one in BREAKS) + 1]
        return before, incomplete

    def format_completion(self, item: CompletionItem[Any]) -> str:
        return f"{item.type},{str(item.value).removeprefix(self._kept)}"


def install() -> None:
    """Make click use `Bash`; to be called before click answers a shell."""
    add_completion_class(Bash, "bash")


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options, environments, settings and runs."""
    install()
    found = get_completion_class(shell)
    assert found is not None
    click.echo(f"# For {SHELLS[shell]}\n{found(ctx.find_root().command, {}, NAME, VARIABLE).source()}")
