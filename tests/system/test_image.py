"""The images of deploy/Containerfile, built and run by podman as its first lines say: learner, actor without torch.

Their base is made of this machine's Debian packages and pip gets its wheels from a folder, so neither the building nor
the running asks anybody outside. Not covered: a GPU in a container, a rootless podman, docker, other bases.
"""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from common.errors import EXIT_SIGTERM
from common.run.folder import RunFolder
from common.run.status import RunStatus
from tests.helpers.containers import BASE, Podman
from tests.helpers.containers import podman as some_podman
from tests.helpers.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(900)]

PROJECT = Path(__file__).parents[2]
CONTAINERFILE = PROJECT / "deploy" / "Containerfile"
BUILD_SECONDS = 400.0
LEARNER, ACTORS = "a3cd", "a3cd-without-torch"
USER = 10001
PIP_OPTIONS = "--no-index --find-links=/wheels --no-compile"
"""Nothing is asked for outside, and no .pyc is made: with them the learner's image takes nearly twice the time."""
AS_A_POD = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")
"""What a launcher asks Kubernetes for."""
SETTINGS = """
[environment]
id = "CartPole-v1"
step_seconds = 0.002  # leaves the processor to whoever else is tested on it
"""


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    if not importlib.metadata.version("torch").endswith("+cpu"):
        pytest.skip("an image with this build of torch has some GiB")
    with some_podman() as one:
        yield one


@pytest.fixture(scope="module")
def wheels(podman: Podman) -> Path:
    """All that the images need but a3cd, from wherever pip has it here."""
    asked = ["/usr/bin/python3", "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if found != "{}.{}".format(*sys.version_info[:2]):
        pytest.skip(f"wheels for Python {sys.version} are none for the base's Python {found}")
    folder = podman.folder / "wheels"
    constraints = ("--constraint", str(PROJECT / "constraints.txt"))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *constraints]
    done = subprocess.run([*command, f"{PROJECT}[torch]", "hatchling"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip has no wheels: {done.stderr.strip()[-1000:]}")
    return folder


@pytest.fixture(scope="module")
def images(podman: Podman, wheels: Path) -> None:
    """Both, by names that the commands below use."""
    given = (f"--volume={wheels}:/wheels:ro", f"--build-arg=BASE={BASE}", f"--build-arg=PIP_OPTIONS={PIP_OPTIONS}")
    for name, extras in ((LEARNER, ()), (ACTORS, ("--build-arg=EXTRAS=",))):
        # A layer for each line would be kept for a next time, which there is not.
        words = ("build", "--layers=false", "--network=none", *given, *extras, "-f", CONTAINERFILE, "-t", name, PROJECT)
        podman.run(*words, seconds=BUILD_SECONDS)


class Container:
    """In the background; what it runs is what the Containerfile says of a role."""

    def __init__(self, podman: Podman, role: str, image: str, *options: str) -> None:
        self.name, self._podman = role, podman
        podman.run("run", f"--name={role}", "--detach", *options, *documented(role, image))

    def exec(self, *words: object) -> str:
        """What `a3cd` prints in it; empty: it failed."""
        return self._podman.attempt("exec", self.name, "/opt/a3cd/bin/a3cd", *words).stdout

    def stop(self) -> int:
        """By SIGTERM; its exit code."""
        self._podman.run("stop", "--time=60", self.name)
        return int(self._podman.run("inspect", "--format={{.State.ExitCode}}", self.name))

    def __str__(self) -> str:
        """For a test that failed: all that it said."""
        done = self._podman.attempt("logs", self.name)
        return f"{self.name}\n{done.stdout}{done.stderr}"


def documented(role: str, image: str) -> list[str]:
    """The words of its `podman run` at the top of the Containerfile, but for --rm and the image's name."""
    head = CONTAINERFILE.read_text().partition("\nARG ")[0].replace(" \\\n#", "")
    ((options, words),) = re.findall(rf"^#   podman run --rm (.*) a3cd +({role} .*)$", head, re.MULTILINE)
    return [*shlex.split(options), image, *shlex.split(words)]


def status(learner: Container, *, frames: int, epoch: int) -> RunStatus:
    """Once an actor that has a key plays and more than so many frames have been applied."""

    def look() -> RunStatus | None:
        said = learner.exec("status", "tcp://localhost:5555", "--keys=/keys", "--json", "--timeout=30")
        now = msgspec.json.decode(said, type=RunStatus) if said else None
        return now if now and now.epoch == epoch and now.frames > frames and now.actors else None

    return until(look, f"more than {frames} frames in epoch {epoch} of", of=learner)


def test_a_learner_and_an_actor_without_torch(podman: Podman, images: None) -> None:
    here = podman.folder
    for name in ("keys", "runs", "h2"):
        (here / name).mkdir(mode=0o700)
    (here / "keys" / "run.toml").write_text(SETTINGS)
    keys = ("run", "--rm", "-v", "./keys:/keys:U", LEARNER, "keys", "--keys=/keys")
    podman.run(*keys, "new", "learner")
    line = podman.run(*keys, "invite", "h2", "--learner=tcp://gpu-box:5555", "--role=actor")
    invitation = shlex.split(line)[-1]
    podman.run("run", "--rm", "-v", "./h2:/keys:U", ACTORS, "keys", "--keys=/keys", "accept", invitation)
    (here / "h2" / "gpu-box_5555.credential").rename(here / "h2.credential")

    gateway = podman.run("network", "inspect", "--format={{(index .Subnets 0).Gateway}}", "podman")
    learner = Container(podman, "learner", LEARNER)
    # By the port that is published on this machine.
    actor = Container(podman, "actor", ACTORS, f"--add-host=gpu-box:{gateway}", *AS_A_POD)
    first = status(learner, frames=500, epoch=1)
    assert [peer.name.partition("/")[0] for peer in first.actors] == ["h2"]
    assert first.gradients > 0

    assert learner.stop() == EXIT_SIGTERM, learner
    kept = RunFolder(here / "runs" / "mine").newest()
    assert kept is not None
    assert kept.folder.stat().st_uid == USER
    frames = kept.read().state["counters"]["frames"]
    assert frames >= first.frames

    podman.run("start", learner.name)
    status(learner, frames=frames, epoch=2)
    assert (actor.stop(), learner.stop()) == (EXIT_SIGTERM, EXIT_SIGTERM), f"{actor}\n{learner}"
    for one in (actor, learner):
        assert "Traceback" not in str(one)


def test_only_the_learners_image_has_torch(podman: Podman, images: None) -> None:
    for image, code in ((LEARNER, 0), (ACTORS, 1)):
        tried = podman.attempt("run", "--rm", "--entrypoint=/opt/a3cd/bin/python", image, "-c", "import torch")
        assert tried.returncode == code, tried.stderr
    assert "No module named 'torch'" in tried.stderr
