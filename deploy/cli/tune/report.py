"""What a study has found: a table, which settings mattered, and the best ones as a file for `a3cd train`."""

import shlex
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from common.host.atomic_file import replace_file
from deploy.cli.tune.plan import FIRST_SEED, Plan
from deploy.cli.tune.study import IMPORTANT_FROM, Study, Told, folder_of
from deploy.cli.view.formatting import number, share

ROWS = 10
"""Most rows of the table."""
CONFIG = "best.toml"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    plan: Plan
    trials: list[Told]
    """The best first."""
    importance: dict[str, float]
    config: str
    """The file of the best settings; empty: no trial has been finished yet, or it could not be written."""
    trouble: str = ""
    """Why it could not be written; empty: it could."""


def found(study: Study) -> Found:
    """What has been found so far; writes the best settings."""
    trials = study.trials()
    config = trouble = ""
    if trials and trials[0].score is not None:
        file = folder_of(study.file) / CONFIG
        text = study.plan.config(trials[0].values, told(study.plan, trials))
        try:
            file.parent.mkdir(exist_ok=True)  # it is missing where the study alone was copied
            replace_file(file, text.encode())
            config = str(file)
        except OSError as error:
            trouble = f"{file}: cannot be written: {error.strerror}"
    return Found(plan=study.plan, trials=trials, importance=study.importance(), config=config, trouble=trouble)


def told(plan: Plan, trials: list[Told]) -> list[str]:
    """The comment above the best settings."""
    best = trials[0]
    over = sum(one.over for one in trials)
    return [
        f"{plan.env}: trial {best.number}, the best of {over} by `a3cd tune`.",
        f"Score {number(best.score)}: {measured(plan)}. Report on other seeds.",
    ]


def measured(plan: Plan) -> str:
    """What a score is, in words."""
    curve = "evaluation" if plan.score == "evaluation" else "training"
    length = [f"{plan.frames:,} frames"] if plan.frames else []
    length += [f"{plan.seconds:g} {'virtual ' if plan.simulate else ''}s"] if plan.seconds else []
    last = FIRST_SEED + plan.seeds - 1
    seeds = f"seed {FIRST_SEED}" if plan.seeds == 1 else f"seeds {FIRST_SEED} to {last} (worse half)"
    return f"mean of the curve of {curve} returns over {' or '.join(length)}, {seeds}"


def table(found: Found) -> Table:
    """The best trials, with the last part of each key above its column."""
    shown = Table(box=None, pad_edge=False)
    for heading in ("trial", "score", *(["seeds"] if found.plan.seeds > 1 else [])):
        shown.add_column(heading, justify="right", no_wrap=True)
    axes = found.plan.axes
    for axis in axes:
        shown.add_column(axis.key.rpartition(".")[2].replace("_", "_\n"), justify="right", no_wrap=True)
    best = [one for one in found.trials if one.score is not None][:ROWS]
    for one in best:
        seeds = [" ".join(map(number, one.scores))] if found.plan.seeds > 1 else []
        used = (str(axis.used(one.values[axis.key])) for axis in axes)
        shown.add_row(str(one.number), number(one.score), *seeds, *used)
    return shown


def text(found: Found) -> list[str]:
    """The lines below the table."""
    states: dict[str, int] = {}
    for one in found.trials:
        states[one.state] = states.get(one.state, 0) + 1
    lines = [f"trials: {', '.join(f'{count} {state}' for state, count in states.items()) or 'none yet'}"]
    lines += [f"score: {measured(found.plan)}"]
    lines += _unsearched(found)
    if found.importance:
        lines += ["mattered: " + ", ".join(f"{key} {share(its)}" for key, its in found.importance.items())]
    elif found.config:
        lines += [f"which settings mattered is said from {IMPORTANT_FROM} finished trials on"]
    if found.config:
        lines += [f"train: a3cd train {found.plan.env} --config {shlex.quote(found.config)}"]
    return lines


def _unsearched(found: Found) -> list[str]:
    """The score of the settings as they are without a search, if they were tried."""
    own = found.plan.unsearched
    tried = [one for one in found.trials if one.score is not None and one.values == own]
    return [f"without a search: {number(tried[0].score)} (trial {tried[0].number})"] if tried else []


def as_json(found: Found) -> str:
    axes = {axis.key: axis for axis in found.plan.axes}

    def used(one: Told) -> Told:
        return msgspec.structs.replace(one, values={key: axes[key].used(value) for key, value in one.values.items()})

    plain: dict[str, Any] = {
        "env": found.plan.env,
        "score": found.plan.score,
        "trials": [used(one) for one in found.trials],
        "importance": found.importance,
        "config": found.config or None,
    }
    return msgspec.json.encode(plain).decode()


def default_file(env: str, algorithm: str) -> Path:
    """runs/tune/ENV-ALGORITHM.db below the working folder."""
    from common.host.modules import bare

    return Path("runs", "tune", f"{bare(env).replace('/', '-')}-{algorithm}.db")
