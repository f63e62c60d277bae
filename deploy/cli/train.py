"""`a3cd train`: a training on this machine, and its result."""

import json

import click

from common.errors import EXIT_DONE, EXIT_TRY_LATER, UnavailableError
from common.run.folder import RunFolder
from deploy.cli.elapsed import since_start
from deploy.cli.request import TrainRequest
from deploy.cli.supervising import summary_of, supervise
from deploy.cli.view import result


def train(request: TrainRequest, *, as_json: bool) -> int:
    """Run until the learner has ended; print the result on stdout and return the exit code. Raises as `supervise`.

    Nothing is started for a run that is over.
    """
    folder = RunFolder(request.run_dir)
    end = _why_over(request) if request.resume else ""
    summary = summary_of(request.run_dir) if end else {}
    if summary:
        click.echo(f"{folder.path}: the run is over: {end}; it goes on with a higher limit or goal", err=True)
        code = EXIT_DONE
    else:
        code, summary = supervise(request)
    nothing = bool(summary) and code == EXIT_DONE and not summary["frames"]
    if summary:
        if not request.resume:  # its frames are those of earlier epochs too, and so are its seconds
            summary["seconds"] = since_start()
        summary["exit_code"] = EXIT_TRY_LATER if nothing else code
        hashed, drawn = request.settings.reproducible, not request.no_curve
        click.echo(json.dumps(summary) if as_json else result.text(summary, hashed=hashed, drawn=drawn))
    if nothing:
        raise UnavailableError("the run is over before its first frame: no actor played in that time; use a longer one")
    return code


def _why_over(request: TrainRequest) -> str:
    from deploy.cli import preflight

    return preflight.why_over(request.settings, RunFolder(request.run_dir))
