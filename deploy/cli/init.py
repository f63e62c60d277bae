"""`a3cd init`: write a file of settings for an environment, with what each of them means."""

import shlex
from contextlib import ExitStack
from pathlib import Path

import click

from common.errors import WRONG_PATH, ConfigurationError, UnavailableError
from deploy.arguments import algorithm_option, env_argument, set_option

STDOUT = "-"


@click.command()
@env_argument()
@click.option(
    "--to",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    default="run.toml",
    show_default=True,
    help="The file, which must not be there yet; - is standard output.",
)
@algorithm_option
@set_option
def init(env: str, to: Path, algorithm: str | None, assignments: tuple[str, ...]) -> None:
    """Write the settings for ENV to a file, each with what it means, to be changed and given to `a3cd train`.

    ENV is as in `a3cd train`. Values that the preset for ENV has tuned stand as they are, the defaults behind a #.
    """
    text = written(env, to, algorithm, assignments)
    if str(to) == STDOUT:
        click.echo(text, nl=False)
        return
    try:
        with to.open("x", encoding="utf-8") as file, ExitStack() as undo:
            undo.callback(to.unlink)  # half of it would be settings, too
            file.write(text)
            file.flush()
            undo.pop_all()
    except FileExistsError as error:
        raise ConfigurationError(f"{to} is there already: remove it, or choose another file with --to") from error
    except OSError as error:
        if error.errno in WRONG_PATH:
            raise ConfigurationError(f"{to}: {error.strerror}; choose another file with --to") from error
        raise UnavailableError(f"{to}: {error.strerror}") from error
    typed = shlex.quote(str(to))
    click.echo(
        f"{to}: settings for {env}\n  train     a3cd train --config {typed}\n  check     a3cd check-config {typed}"
    )


def written(env: str, to: Path, algorithm: str | None, assignments: tuple[str, ...]) -> str:
    """The content of the file; raises ConfigurationError, also where there is no such environment."""
    from common.rl.environments.names import find_spec  # loads gymnasium
    from common.run import presets
    from common.settings.commented import commented
    from common.settings.toml import override

    settings = override(presets.for_environment(env, algorithm), assignments)
    find_spec(settings.environment.id)
    preset = presets.find(env)
    file = "FILE" if str(to) == STDOUT else shlex.quote(str(to))
    lines = [
        f"Settings of a run of {settings.environment.id}.",
        f"Preset: {preset.purpose}" if preset else "There is no preset for it: all are defaults.",
        "Lines that begin with # are comments, or defaults: take the # away to change one.",
        "Used by:",
        f"    a3cd train --config {file}            # on this machine",
        f"    a3cd learner --config {file}          # for actors and launchers, also on others",
        f"    a3cd check-config {file}",
    ]
    heading = "".join(f"# {line}\n" for line in lines)
    return f"{heading}\n{commented(settings, preset.text if preset else '')}"
