"""Groups of commands whose usage errors name the cure: what was probably meant, or what is missing."""

from difflib import get_close_matches
from typing import Any

import click

MISSING = {
    "RUN": "The folder of a run, as in runs/CartPole-v1-..., or last; `a3cd runs` lists them.",
    "LEARNER|RUN...": "Any number of learners, as in gpu-box:5555, and of runs, as in runs/mine, or last.",
    "LEARNER": "Its address, as in tcp://gpu-box:5555 or just gpu-box:5555, or an invitation.",
    "ACTORS": "How many, as in 4, or bounds, as in 2..8.",
    "ENV": "A preset (see `a3cd presets`), any Gymnasium id, or a class in a file of your own, as in my_envs.py:Grid.",
    "FILE": "Settings in TOML; `a3cd init ENV` writes such a file.",
    "RUN.toml": "Settings in TOML; `a3cd init ENV` writes such a file.",
    "--out": "The film's file, as in --out agent.gif.",
    "export --to": "The file, as in --to policy.onnx, policy.pt2 or policy.safetensors.",
    "track --to": "",
    "--to": "The hosts, as in --to root@lab-01.",
    "--learner": "As its peers reach it, as in --learner tcp://gpu-box:5555.",
}
"""What to write where a parameter is missing, by metavar or option; for one command alone with its name before it.
Empty: click says it."""
OPTIONS = {
    "--steps": "--frames",
    "--timesteps": "--frames",
    "--total-timesteps": "--frames",
    "--workers": "--actors",
    "--num-workers": "--actors",
    "--algo": "--algorithm",
    "--output": "--out",
    "--gpu": "--set optimizer.device=cuda",
    "--cuda": "--set optimizer.device=cuda",
    "--device": "--set optimizer.device=VALUE",
}
"""a3cd's options by the names that other programs have for them."""


class HelpfulGroup(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}.{self._meant(ctx, name)}")
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, name: str) -> str:
        known = self.list_commands(ctx)
        if near := get_close_matches(name, known, n=1):
            return f" Did you mean {near[0]!r}?"
        if "show" in known:
            return f" Did you mean 'show {name}'?"
        return ""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.MissingParameter as error:
            if error.message or error.param is None:
                raise
            called = _called(error.param)
            command = error.ctx.info_name if error.ctx is not None else None
            told = MISSING.get(f"{command} {called}", MISSING.get(called, ""))
            raise click.MissingParameter(told, error.ctx, error.param, error.param_hint, error.param_type) from error
        except click.NoSuchOption as error:
            if not (cure := _instead(error.option_name, error.ctx)):
                raise
            told = f"No such option {error.option_name!r}: write {cure}."
            raise click.NoSuchOption(error.option_name, told, ctx=error.ctx) from error


def _called(param: click.Parameter) -> str:
    return param.human_readable_name if isinstance(param, click.Argument) else param.opts[0]


def _instead(option: str, ctx: click.Context | None) -> str:
    """What to write instead of an option that a command does not have; empty if no other option can do the same."""
    known = {one for param in ctx.command.params for one in param.opts} if ctx is not None else set()
    cure = OPTIONS.get(option, "")
    if not cure and "--set" in known:
        from common.settings.toml import named_like

        path = named_like(option.lstrip("-").replace("-", "_"))
        cure = f"--set {path}=VALUE" if path else ""
    return cure if cure.partition(" ")[0] in known else ""
