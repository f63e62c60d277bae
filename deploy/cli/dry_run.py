"""`a3cd train --dry-run`: print everything that would be started, and start nothing."""

import json
import shlex

import click
import msgspec

from common.run.folder import RunFolder
from common.settings.toml import dump_changed
from deploy.cli import evaluating, preflight, tracking
from deploy.cli.request import USUAL, TrainRequest


def training(request: TrainRequest, *, as_json: bool) -> None:
    """Print settings, run folder and commands of a training; raises as `preflight.check` if it would be refused."""
    folder = RunFolder(request.run_dir)
    preflight.check(request.settings, folder, request.resume)
    scaling = request.settings.scaling
    commands = {"learner": request.learner(USUAL), "launcher": request.launcher(USUAL)}
    if request.settings.evaluation.episodes:
        commands["evaluator"] = evaluating.words(USUAL, request.modules)
    commands |= {kind: tracking.words(request.run_dir, kind) for kind in request.trackers}
    if as_json:
        lines = {name: ["a3cd", *words] for name, words in commands.items()}
        told = {"settings": msgspec.to_builtins(request.settings), "run_dir": str(folder.path), "commands": lines}
        click.echo(json.dumps(told | {"actors": scaling.minimum, "slots": request.slots}))
        return
    over = preflight.why_over(request.settings, folder) if request.resume else ""
    actors = f"{scaling.minimum}" if request.slots == scaling.minimum else f"{scaling.minimum} to {request.slots}"
    notes = {
        "learner": "with the settings above, and another port if this one is in use",
        "launcher": f"actors on this machine: {actors}",
        "evaluator": f"after {evaluating.AFTER_SECONDS:g} s",
        **dict.fromkeys(request.trackers, "once the run has begun"),
    }
    text = [
        "Settings that differ from the defaults (`a3cd init` writes all, with what they mean):",
        *(f"  {line}".rstrip() for line in dump_changed(request.settings).splitlines()),
        "",
        f"Run folder: {folder.path}" + (f" (the run there is over: {over})" if over else ""),
        "Would be started:",
        *(f"  a3cd {shlex.join(words)}\n      {notes[name]}" for name, words in commands.items()),
        "Nothing was started.",
    ]
    click.echo("\n".join(text))
