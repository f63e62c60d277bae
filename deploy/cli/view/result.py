"""The result of a training, for a person: figures, and commands that can be typed as they stand."""

import os
import shlex
from pathlib import Path
from typing import Any

from common.errors import UnavailableError
from common.host.modules import module_of
from common.run.folder import RunFolder


def text(summary: dict[str, Any], *, hashed: bool, drawn: bool = True) -> str:
    """The result as text. `hashed`: show the SHA-256 of the weights; `drawn`: the learning curve is in the folder."""
    mean = "no episode finished" if summary["mean_return"] is None else f"mean return {summary['mean_return']:.1f}"
    run = shlex.quote(summary["run_dir"])
    a3cd = _command(summary["env"], summary["network"])
    folder = RunFolder(Path(summary["run_dir"]))
    playable, saved = kept(folder)
    lines = [
        f"{summary['env']}: {mean} after {summary['frames']:,} frames (agent steps), {summary['episodes']:,} episodes "
        f"and {summary['seconds']:.1f} s ({summary['state']})",
        *_evaluated(summary),
        f"  saved     {saved}",
        f"  curve     {summary['run_dir']}/curve.png" if drawn else f"  curve     {a3cd} curve {run}",
    ]
    if hashed and summary["weights"]:
        lines.append(f"  weights   {summary['weights']} (SHA-256; the same again)")
    if playable:
        lines += [f"  evaluate  {a3cd} evaluate {run}", f"  record    {a3cd} record {run} --out agent.gif"]
    if summary["state"] == "stopped":  # at its limit or goal it would end at once
        lines.append(f"  go on     {a3cd} train {summary['env']} --resume --run-dir {run}")
    return "\n".join(lines)


def kept(folder: RunFolder) -> tuple[bool, str]:
    """Whether there is a checkpoint on the disk, and which, for a person."""
    try:
        versions = [paths.order[0] for paths in folder.all_checkpoints()]
    except UnavailableError as error:
        return False, str(error)
    if not versions:
        return False, "there is no checkpoint"
    return True, f"the newest checkpoint is of version {versions[-1]:,}"


def _evaluated(summary: dict[str, Any]) -> list[str]:
    """How good the best weights are, where that is known."""
    if summary.get("best_evaluation") is None:
        return []
    version = summary["best_evaluation_version"]
    low, high = summary["best_evaluation_low"], summary["best_evaluation_high"]
    between = "" if low is None else f" ({low:.1f} to {high:.1f})"
    return [
        f"  evaluated mean return {summary['best_evaluation']:.1f}{between} over {summary['best_evaluation_episodes']} "
        f"episodes: version {version:,}, the best"
    ]


def _command(*named: str) -> str:
    """`a3cd`, with PYTHONPATH before it if a `module:Name` among these names was found by that."""
    path = os.environ.get("PYTHONPATH", "")
    return f"PYTHONPATH={shlex.quote(path)} a3cd" if path and any(map(module_of, named)) else "a3cd"
