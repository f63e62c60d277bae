"""What has to be so on a host, for each role, as steps; pure, and the same every time."""

from __future__ import annotations

import re
from dataclasses import dataclass

from common.errors import ConfigurationError
from common.host.addresses import Address
from deploy.install.layout import UNITS, Layout, read
from deploy.install.software import Software, installed
from deploy.install.step import Absent, Command, File, Folder, Plan, Step, at, digest_of, names_of

ACTORS = "a3cd-actor@*.service"
ALL = ("a3cd-learner@*.service", "a3cd-launcher.service", ACTORS)
_TARGET = "a3cd.target"
_RUNNING = ["active", "activating", "reloading"]
_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)
_RESTART = 'systemctl "$0" restart "$1" || { code=$?; journalctl "$0" -q -u "$1" -n 10 -o cat; exit $code; }'
"""And say why not."""
_BEYOND = """for link in "$0"/a3cd-actor@*.service; do
  unit=${link##*/} slot=${link##*@}
  test -L "$link" && test "${slot%.service}" -ge "$1" && echo "$unit"
done"""
"""Actors that start at boot in slots from $1 on, by what `systemctl enable` left in $0."""
_POLKIT = "/etc/polkit-1/rules.d"


@dataclass(frozen=True)
class Learner:
    """A run, and how its learner listens."""

    run: str
    settings: bytes
    bind: Address
    insecure: bool = False

    def __post_init__(self) -> None:
        """Raises ConfigurationError for a name that no unit can have."""
        if not _RUN.fullmatch(self.run):
            raise ConfigurationError(f"{self.run!r} is no name for a run: letters, digits, dots, dashes, underlines")

    @property
    def keys(self) -> bool:
        """Whether it needs a key pair."""
        return not self.bind.loopback and not self.insecure


@dataclass(frozen=True)
class Peers:
    """Actors or a launcher, and the way to their learner."""

    learner: Address
    slots: int
    credential: File | None = None
    modules: tuple[str, ...] = ()
    """That the learner may have imported for its environment."""
    insecure: bool = False

    def __post_init__(self) -> None:
        """Raises ConfigurationError for what cannot be a module's name."""
        for name in self.modules:
            if not _MODULE.fullmatch(name):
                raise ConfigurationError(f"{name!r} is no name of a module")

    @property
    def options(self) -> str:
        """More words for the command line."""
        words = [f"--allow-module {name}" for name in self.modules]
        return " ".join([*words, "--insecure"] if self.insecure else words)


def learner(layout: Layout, python: str, software: Software, role: Learner) -> Plan:
    """A learner of one run."""
    inputs = [*installed(layout, python, software), *_units(layout)]
    if role.keys:
        new = [at(layout.a3cd), "keys", "--keys", at(layout.keys), "new", "learner"]
        pair = f"{layout.keys}/learner.key"
        inputs.append(Command("key pair of the learner", new, {"exists": pair}))
    inputs += _drop_in(layout, "a3cd-learner@.service", read("drop-ins", "learner-keys.conf") if role.keys else b"")
    settings = (f"A3CD_BIND={role.bind}", "A3CD_LEARNER_OPTIONS=--insecure" if role.insecure else "")
    inputs += [
        File(f"{layout.config}/runs/{role.run}.toml", role.settings),
        File(f"{layout.config}/runs/{role.run}.env", _environment("learner.env", *settings)),
    ]
    # Waited for: a run that cannot begin is said at once.
    started = _started(layout, inputs, [f"a3cd-learner@{role.run}.service"], wait=True)
    return Plan(f"learner of run {role.run} at {role.bind}", (*inputs, *started), root=not layout.user)


def actors(layout: Layout, python: str, software: Software, role: Peers) -> Plan:
    """So many actors, started at boot."""
    inputs = [*installed(layout, python, software), *_units(layout), *_access(layout, role, "a3cd-actor@.service")]
    started = _started(layout, inputs, [f"a3cd-actor@{slot}.service" for slot in range(role.slots)])
    fewer = _no_more(layout, role.slots)
    return Plan(f"{role.slots} actors for {role.learner}", (*inputs, *started, fewer), root=not layout.user)


def launcher(layout: Layout, python: str, software: Software, role: Peers) -> Plan:
    """A launcher that starts actors as units."""
    inputs = [*installed(layout, python, software), *_units(layout)]
    inputs += _access(layout, role, "a3cd-actor@.service", "a3cd-launcher.service")
    insecure = "A3CD_LAUNCHER_OPTIONS=--insecure" if role.insecure else ""
    inputs.append(
        File(f"{layout.config}/launcher.env", _environment("launcher.env", f"A3CD_SLOTS={role.slots}", insecure))
    )
    if not layout.user:
        inputs += [Folder(_POLKIT), File(f"{_POLKIT}/50-a3cd.rules", read("polkit.rules"))]
    mark = {"unchanged": names_of(inputs), "marked": [f"{layout.venv}/actors", digest_of(inputs)]}
    its_actors = Command("restart of its actors", [*layout.systemctl, "try-restart", "--no-block", ACTORS], mark)
    started = _started(layout, inputs, ["a3cd-launcher.service"])
    title = f"launcher of up to {role.slots} actors for {role.learner}"
    return Plan(title, (*inputs, *started, its_actors), root=not layout.user)


def upgrade(layout: Layout, python: str, software: Software) -> Plan:
    """New software and units; what runs is restarted, what does not is left so."""
    inputs = [*installed(layout, python, software), *_units(layout)]
    mark = f"{layout.venv}/upgraded"
    up_to_date = {"unchanged": names_of(inputs), "marked": [mark, digest_of(inputs)]}
    again = Command("restart of what runs", [*layout.systemctl, "try-restart", "--no-block", *ALL], up_to_date)
    return Plan("upgrade", (*inputs, _reloaded(layout, inputs, mark), again), root=not layout.user)


def status(layout: Layout) -> Plan:
    """What is installed and what it does; changes nothing."""
    listed = [*layout.systemctl, "list-units", "--all", "--plain", "--no-legend", "a3cd*"]
    version = Command("version", [at(layout.a3cd), "--version"], tell=True)
    return Plan("status", (version, Command("units", listed, tell=True)), root=False)


def remove(layout: Layout) -> Plan:
    """Nothing of a3cd runs or is installed; runs, settings and keys stay."""
    there = {"absent": f"{layout.units}/{_TARGET}"}
    # Disabling a template disables all its instances.
    disabled = [_TARGET, *(name for name in UNITS if name.endswith(".service"))]
    stopped: list[Step] = [
        Command("nothing runs", [*layout.systemctl, "stop", _TARGET, *ALL, "a3cd.slice"], there),
        Command("no failure is remembered", [*layout.systemctl, "reset-failed", "a3cd-*.service"], there),
        Command("nothing starts at boot", [*layout.systemctl, "disable", *disabled], there),
    ]
    paths = [f"{layout.units}/{name}" for name in UNITS]
    paths += [f"{layout.units}/{name}.d/keys.conf" for name in UNITS if name.endswith(".service")]
    if not layout.user:
        paths += [f"{_POLKIT}/50-a3cd.rules", "/etc/sysusers.d/a3cd.conf", "/etc/tmpfiles.d/a3cd.conf"]
    gone = [Absent(path) for path in (*paths, layout.wheels, layout.venv)]
    reload = Command("units read again", [*layout.systemctl, "daemon-reload"], {"unchanged": names_of(gone)})
    kept = f"kept: {layout.data} (runs) and {layout.config} (settings, keys)"
    return Plan("removal", (*stopped, *gone, reload), root=not layout.user, after=kept)


def _no_more(layout: Layout, slots: int) -> Step:
    """Actors of an earlier deployment with more slots are gone."""
    given = [at(f"{layout.units}/{_TARGET}.wants"), str(slots)]
    none = {"succeeds": ["sh", "-c", f'test -z "$({_BEYOND})"', *given]}
    disable = f"{' '.join(layout.systemctl)} disable --now $({_BEYOND})"
    return Command(f"no actor beyond {slots}", ["sh", "-c", disable, *given], none)


def _units(layout: Layout) -> list[Step]:
    """Folders, users, units."""
    units: list[Step] = [Folder(layout.units), *(File(f"{layout.units}/{n}", layout.unit(n)) for n in UNITS)]
    if layout.user:
        who = "import getpass, os, sys; sys.exit(not os.path.exists('/var/lib/systemd/linger/' + getpass.getuser()))"
        linger = Command(
            "units run without a login", ["loginctl", "enable-linger"], {"succeeds": ["python3", "-c", who]}
        )
        return [Folder(layout.config), Folder(f"{layout.config}/runs"), Folder(layout.keys, 0o700), linger, *units]
    users, folders = (File(f"/etc/{kind}.d/a3cd.conf", read(f"{kind}.conf")) for kind in ("sysusers", "tmpfiles"))
    made = {"unchanged": [users.what], "succeeds": ["id", "a3cd-launcher"]}
    there = {"unchanged": [folders.what], "exists": layout.keys}
    return [
        *(Folder("/etc/sysusers.d"), users, Command("users", ["systemd-sysusers", at(users.path)], made)),
        *(Folder("/etc/tmpfiles.d"), folders),
        Command("folders", ["systemd-tmpfiles", "--create", at(folders.path)], there),
        *units,
    ]


def _access(layout: Layout, role: Peers, *units: str) -> list[Step]:
    """The way to the learner."""
    settings = f"A3CD_LEARNER={role.learner}", f"A3CD_ACTOR_OPTIONS={role.options}" if role.options else ""
    steps: list[Step] = [File(f"{layout.config}/actor.env", _environment("actor.env", *settings))]
    drop_in = b""
    if role.credential is not None:
        steps.append(role.credential)
        drop_in = read("drop-ins", "peer-keys.conf").replace(
            b":/etc/a3cd/keys/learner.credential", f":{role.credential.path}".encode()
        )
    for unit in units:
        steps += _drop_in(layout, unit, drop_in)
    return steps


def _drop_in(layout: Layout, unit: str, text: bytes) -> list[Step]:
    """Keys for a unit, or none. A user's own daemons find them in the user's key folder."""
    path = f"{layout.units}/{unit}.d/keys.conf"
    if layout.user:
        return []
    return [Folder(f"{layout.units}/{unit}.d"), File(path, text)] if text else [Absent(path)]


def _environment(sample: str, *lines: str) -> bytes:
    """The sample with its comments, and what is set below it."""
    set_here = "".join(f"{line}\n" for line in lines if line)
    return read("environment", sample) + b"\n# Set by `a3cd deploy`, which writes this file anew.\n" + set_here.encode()


def _reloaded(layout: Layout, inputs: list[Step], mark: str) -> Step:
    units = [step for step in inputs if isinstance(step, File | Absent) and step.path.startswith(layout.units)]
    read_already = {"unchanged": names_of(units), "marked": [f"{mark}-units", digest_of(units)]}
    return Command("units read again", [*layout.systemctl, "daemon-reload"], read_already)


def _started(layout: Layout, inputs: list[Step], instances: list[str], wait: bool = False) -> list[Step]:
    """Units are known, start at boot, and run with what is there now."""
    systemctl = layout.systemctl
    mark = f"{layout.venv}/{instances[0]}"
    run = [*systemctl, "restart", "--no-block", *instances]
    if wait:
        run = ["sh", "-c", _RESTART, "--user" if layout.user else "--system", *instances]
    up_to_date = {
        "unchanged": names_of(inputs),
        "marked": [mark, digest_of(inputs)],
        "prints": [[*systemctl, "is-active", *instances], _RUNNING],
    }
    return [
        _reloaded(layout, inputs, mark),
        Command(
            "start at boot",
            [*systemctl, "enable", _TARGET, *instances],
            {"prints": [[*systemctl, "is-enabled", _TARGET, *instances], ["enabled"]]},
        ),
        Command(" ".join(instances), run, up_to_date),
        Command(
            _TARGET,
            [*systemctl, "start", "--no-block", _TARGET],
            {"prints": [[*systemctl, "is-active", _TARGET], _RUNNING]},
        ),
    ]
