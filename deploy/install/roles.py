"""The files that a host gets for each role: units, settings, and keys."""

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security.credential import file_name
from deploy.install.payload import SYSTEM, Layout, Payload, read

UNITS = (
    *("a3cd-learner@.service", "a3cd-actor@.service", "a3cd-launcher.service", "a3cd-evaluator.service"),
    *("a3cd-relay.service", "a3cd.target", "a3cd.slice"),
)
PLAYERS = ("a3cd-actor@.service", "a3cd-evaluator.service")
"""Units that connect to a learner with the credential of their host; an evaluator is started by hand."""
_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)
_NO_KEYS = b"# No keys: the learner is on this machine, or `a3cd deploy` was told --insecure.\n"


def learner(
    layout: Layout, wheels: Sequence[Path], run: str, config: bytes, bind: Address, insecure: bool = False
) -> Payload:
    """The learner of one run; raises ConfigurationError for a name that no unit can have."""
    if not _RUN.fullmatch(run):
        raise ConfigurationError(f"{run!r} is no name for a run: letters, digits, dots, dashes, underlines")
    keys = not bind.loopback and not insecure
    options = "A3CD_INSECURE=--insecure" if insecure else ""  # A3CD_LEARNER_OPTIONS are the operator's, in learner.env
    own = {
        f"config/runs/{run}.toml": config,
        f"config/runs/{run}.env": _environment("learner.env", f"A3CD_BIND={bind}", options),
    }
    drop_in = read("drop-ins", "learner-keys.conf") if keys else _NO_KEYS
    settings = {"instances": f"a3cd-learner@{run}.service", "run": run, "key_pair": "yes" if keys else "no"}
    return Payload("learner", layout, wheels, own | _files(layout, drop_in, "a3cd-learner@.service"), settings)


def peers(
    verb: str,
    layout: Layout,
    wheels: Sequence[Path],
    learner: Address,
    slots: int,
    *,
    modules: Collection[str] = (),
    insecure: bool = False,
    credential: Callable[[], bytes] | None = None,
) -> Payload:
    """Actors or a launcher, as `verb` says (`actors`, `launcher`); raises ConfigurationError for a name that no module
    can have."""
    for name in modules:
        if not _MODULE.fullmatch(name):
            raise ConfigurationError(f"{name!r} is no name of a module")
    words = " ".join([*(f"--allow-module {name}" for name in modules), *(["--insecure"] if insecure else [])])
    options = f"A3CD_ACTOR_OPTIONS={words}" if words else ""
    own = {"config/actor.env": _environment("actor.env", f"A3CD_LEARNER={learner}", options)}
    instances, templates = [f"a3cd-actor@{slot}.service" for slot in range(slots)], [*PLAYERS]
    if verb == "launcher":
        instances = ["a3cd-launcher.service"]
        templates += instances
        options = "A3CD_LAUNCHER_OPTIONS=--insecure" if insecure else ""
        own["config/launcher.env"] = _environment(
            "launcher.env", f"A3CD_LEARNER={learner}", f"A3CD_SLOTS={slots}", options
        )
        if not layout.user:
            own["etc/polkit-1/rules.d/50-a3cd.rules"] = read("polkit.rules")
    credential_name = file_name(learner) if credential else ""
    own |= _files(layout, _peer_keys(f"{layout.keys}/{credential_name}") if credential else _NO_KEYS, *templates)
    settings = {"instances": " ".join(instances), "slots": str(slots), "credential": credential_name}
    settings |= {"learner": str(learner), "insecure": "yes" if insecure else "no"}
    return Payload(verb, layout, wheels, own, settings, credential)


def relay(
    layout: Layout,
    wheels: Sequence[Path],
    learner: Address,
    bind: Address,
    *,
    mbit: float = 0.0,
    insecure: bool = False,
    credential: Callable[[], bytes] | None = None,
) -> Payload:
    """A relay between the learner and the actors that connect to `bind`; mbit: as `a3cd relay` has it, 0: not given.

    It has a credential of its own, since other peers on the host may not be relays.
    """
    keys = not bind.loopback and not insecure
    words = " ".join([*([f"--mbit {mbit:g}"] if mbit else []), *(["--insecure"] if insecure else [])])
    options = f"A3CD_RELAY_OPTIONS={words}" if words else ""
    own = {"config/relay.env": _environment("relay.env", f"A3CD_LEARNER={learner}", f"A3CD_BIND={bind}", options)}
    name = f"relay-{file_name(learner)}" if credential else ""
    drop_in = _NO_KEYS
    if layout.user and credential:
        path = f"{layout.keys}/{name}".replace("~", "%h")
        drop_in = f'[Service]\nEnvironment="A3CD_CREDENTIAL=--credential {path}"\n'.encode()
    elif not layout.user and (
        keys or credential
    ):  # keys as a learner's towards the actors, and as a peer's towards the learner
        drop_in = read("drop-ins", "learner-keys.conf") if keys else b""
        drop_in += _peer_keys(f"{layout.keys}/{name}") if credential else b""
    own |= _files(layout) | {"units/a3cd-relay.service.d/keys.conf": drop_in}
    settings = {"instances": "a3cd-relay.service", "credential": name, "key_pair": "yes" if keys else "no"}
    return Payload("relay", layout, wheels, own, settings, credential)


def _peer_keys(path: str) -> bytes:
    """The drop-in of a service with the credential at `path`."""
    return read("drop-ins", "peer-keys.conf").replace(f"{SYSTEM.keys}/learner.credential".encode(), path.encode())


def upgrade(layout: Layout, wheels: Sequence[Path]) -> Payload:
    """New software and units."""
    return Payload("upgrade", layout, wheels, _files(layout))


def _files(layout: Layout, drop_in: bytes = b"", *services: str) -> dict[str, bytes]:
    """The files of every role, and the drop-in about keys. A user's daemons find the user's key folder without it."""
    found = {f"units/{name}": layout.unit(name) for name in UNITS}
    if not layout.user:
        found["gpu/a3cd-learner@.service.d/gpu.conf"] = read("drop-ins", "learner-gpu.conf")
        found |= {f"etc/{kind}.d/a3cd.conf": read(f"{kind}.conf") for kind in ("sysusers", "tmpfiles")}
        found |= {f"units/{name}.d/keys.conf": drop_in for name in services}
    return found


def _environment(sample: str, *lines: str) -> bytes:
    """A sample file of variables with its comments, and below it the lines that are set."""
    set_here = "".join(f"{line}\n" for line in lines if line)
    return read("environment", sample) + b"\n# Set by `a3cd deploy`, which writes this file anew.\n" + set_here.encode()
