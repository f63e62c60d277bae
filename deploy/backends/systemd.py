"""Actors as units of systemd, of the system's manager or the user's own."""

import shlex
from collections.abc import Callable, Mapping, Sequence

from deploy.backends.base import Backend, Ended, Observation
from deploy.backends.process import ONE_THREAD
from deploy.backends.runner import ToolError, last_line, run

UNIT = "a3cd-actor@"
_ALIVE = frozenset({"active", "reloading", "refreshing", "activating", "deactivating"})
_PROPERTIES = "Id,LoadState,ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,Job,InvocationID"
_EXITED = "1"
"""CLD_EXITED of waitid(2): with this ExecMainCode, ExecMainStatus is an exit code, with others a signal."""
_TRANSIENT = (
    *("--quiet", "--no-block", "--no-ask-password", "--slice=a3cd.slice", "--service-type=notify", "--nice=10"),
    *(f"--setenv={name}={value}" for name, value in ONE_THREAD.items()),
    *("--property=Restart=always", "--property=RestartSec=15", "--property=RestartPreventExitStatus=2 78"),
    *("--property=SuccessExitStatus=143", "--property=KillMode=mixed", "--property=TimeoutStopSec=20"),
    *("--property=TimeoutStartSec=300", "--property=WatchdogSec=60", "--property=SyslogIdentifier=a3cd-actor"),
    *("--property=CPUSchedulingPolicy=batch", "--property=IOSchedulingClass=idle"),
)
"""Options of systemd-run. The properties are those of deploy/units/system/a3cd-actor@.service, which explains them;
after a failure it is the launcher that tries again."""


BATCH = 50
"""Most units in one command line of systemd-run's: over ssh it is a single argument, of 131,071 bytes at most."""
_REFUSED = "a3cd-refused:"


class SystemdBackend(Backend):
    """Starts and stops the units NAME0.service, NAME1.service, ... with systemctl, and shows all of them in one call.

    A unit has ended when systemd gave it up or somebody stopped it. systemd would start a failed one again by itself,
    as it does while there is no launcher; that unit is stopped, so that the failure counts, and the launcher starts it
    again in its own time, or the learner orders the actor elsewhere.
    """

    outlives = True

    def __init__(self, slots: int, *, user: bool = False, unit: str = UNIT, run: Callable[..., str] = run) -> None:
        """`user`: units of the user's own manager; `unit`: the name before the slot's number."""
        self._run = run
        self._scope = "--user" if user else "--system"
        self._unit = unit
        # Names also show units that are not loaded yet; the pattern shows those of a launcher that had more slots.
        self._shown_units = [*self.names(range(slots)), f"{unit}*.service"]
        self._shown: dict[int, Mapping[str, str]] = {}

    def names(self, slots: Sequence[int]) -> list[str]:
        return [f"{self._unit}{slot}.service" for slot in slots]

    def shown(self, slot: int) -> str:
        return shlex.join(("systemctl", self._scope, "start", *self.names([slot])))

    def start(self, slots: Sequence[int]) -> None:
        # Does not wait: a unit counts as started when its learner has welcomed it.
        self._systemctl("start", "--no-block", "--", *self.names(slots))

    def stop(self, slots: Sequence[int], kill: bool = False) -> None:  # noqa: ARG002
        """systemd sends SIGTERM, and SIGKILL after the unit's TimeoutStopSec."""
        self._systemctl("stop", "--no-block", "--", *self.names(slots))

    def observe(self) -> Observation:
        """Shows the units; one with a waiting job counts as started."""
        shown = self._systemctl("show", f"--property={_PROPERTIES}", "--", *self._shown_units)
        self._shown = {}
        for block in shown.strip().split("\n\n"):
            unit = dict(line.partition("=")[::2] for line in block.splitlines())
            number = unit.get("Id", "").removeprefix(self._unit).removesuffix(".service")
            if number.isdecimal():
                self._shown[int(number)] = unit
        alive = {
            slot: unit
            for slot, unit in self._shown.items()
            if unit.get("ActiveState") in _ALIVE or unit.get("Job", "0") not in ("", "0")
        }
        if failed := {slot for slot, unit in alive.items() if _waits(unit) and unit.get("Result") != "success"}:
            self.stop(sorted(failed))
            alive = {slot: unit for slot, unit in alive.items() if slot not in failed}
        starting = {slot for slot, unit in alive.items() if unit.get("ActiveState") not in ("active", "reloading")}
        sent_away = (unit["Id"] for unit in alive.values() if _waits(unit))
        note = "; ".join(f"{name}: its learner sent it away, and systemd is starting it again" for name in sent_away)
        return Observation(frozenset(alive), frozenset(starting), note)

    def exit_status(self, slot: int) -> Ended:
        """Says how an actor ended by its unit's result, with its last words from the journal, if that may be read."""
        unit = self._shown.get(slot, {})
        result = unit.get("Result", "success")
        if result == "success":
            return Ended(slot, 0)
        status = int(unit.get("ExecMainStatus") or 0)
        exit_code = status if unit.get("ExecMainCode") == _EXITED else 128 + status if status else 1
        what = f"{unit['Id']}: {unit.get('LoadState')}, result {result}"
        return Ended(slot, exit_code or 1, "\n".join((what, *self._journal(unit.get("InvocationID", "")))))

    def _journal(self, invocation: str) -> list[str]:
        """The last lines that the unit's processes wrote, without systemd's own about the unit."""
        options = ("--no-pager", "--quiet", "--output=cat", "--lines=10", f"_SYSTEMD_INVOCATION_ID={invocation}")
        try:
            return [last_line(line) for line in self._run("journalctl", self._scope, *options).splitlines()]
        except ToolError:
            return []

    def _systemctl(self, *words: str) -> str:
        return self._run("systemctl", self._scope, "--no-ask-password", "--no-pager", *words)


class TransientBackend(SystemdBackend):
    """Units that systemd-run makes, on a host where no unit files are installed.

    systemd-run refuses a unit that exists, so no actor is started twice. systemd forgets a unit that ended well.
    """

    interval = 10.0

    def __init__(self, unit: str, *, user: bool, run: Callable[..., str], command: Callable[[int], str]) -> None:
        """`command`: gives the actor's command in a slot, a line for the shell."""
        super().__init__(0, user=user, unit=unit, run=run)
        self._command = command

    def start(self, slots: Sequence[int]) -> None:
        """Starts a batch by each command line, so that the host is reached few times; Linux limits a line's length.

        Raises ToolError if the host cannot be reached, or else at the end if a unit was refused.
        """
        refused: list[str] = []
        for first in range(0, len(slots), BATCH):
            refused += self._begin(slots[first : first + BATCH])
        if refused:
            raise ToolError(f"systemd-run: {last_line(refused[-1]) or 'no message'} ({len(refused)} of {len(slots)})")

    def _begin(self, slots: Sequence[int]) -> list[str]:
        """Begins these units; returns what systemd-run said where it failed."""
        names = self.names(slots)
        account = () if self._scope == "--user" else ("--uid=0",)  # so that systemd sets HOME
        forget = shlex.join(("systemctl", self._scope, "reset-failed", "--", *names))
        options = shlex.join((self._scope, *account, *_TRANSIENT))
        units = zip(slots, names, strict=True)
        begin = [f"begin {shlex.quote(f'--unit={name}')} -- {self._command(slot)}" for slot, name in units]
        # The options are written once. A unit that is refused holds nothing back.
        why = f"""echo "{_REFUSED} $(printf '%s\\n' "$said" | tail -n 1)\""""
        function = f'begin() {{ said=$(systemd-run {options} "$@" 2>&1) || {why}; }}'
        said = self._run("sh", "-c", "; ".join((f"{forget} 2>/dev/null", function, *begin)))
        return [line.partition(_REFUSED)[2] for line in said.splitlines() if _REFUSED in line]


def _waits(unit: Mapping[str, str]) -> bool:
    """Whether systemd waits before it starts a unit again, whose processes have ended."""
    return unit.get("SubState", "").startswith("auto-restart")
