"""Actors as units of systemd: a3cd-actor@N.service is slot N, in the system's manager or the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deploy.backends.base import Ended
from deploy.backends.client import Client, ClientError, last_line
from deploy.backends.managed import ManagedBackend, Seen

LOOK_SECONDS = 1.0
UNIT = "a3cd-actor@"
_ALIVE = frozenset({"active", "reloading", "refreshing", "activating", "deactivating"})
_PROPERTIES = "LoadState,ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,NRestarts,Job,InvocationID"
_EXITED = "1"
"""CLD_EXITED of waitid(2): the status is an exit code, else a signal."""
_WORDS = 10


class SystemdBackend(ManagedBackend):
    """Starts and stops units with systemctl, and looks at all of them in one call.

    systemd starts a crashed actor again by itself; only a unit that it has given up, or that was stopped, has ended.
    """

    def __init__(self, slots: int, *, user: bool = False, template: str = UNIT, client: Client | None = None) -> None:
        """`user`: of the user's own manager; `template`: what stands before the slot's number."""
        super().__init__(LOOK_SECONDS, client)
        self._scope = "--user" if user else "--system"
        self._units = [f"{template}{slot}.service" for slot in range(slots)]
        self._shown: Sequence[Mapping[str, str]] = ()

    def look(self) -> Seen:
        """Of every slot's unit; one with a job waiting is as good as started."""
        shown = self._systemctl("show", f"--property={_PROPERTIES}", "--", *self._units)
        blocks = [_properties(block) for block in shown.strip().split("\n\n")]
        if len(blocks) != len(self._units):
            raise ClientError(f"systemctl: {len(blocks)} units shown of {len(self._units)}")
        self._shown = blocks
        alive = {slot for slot, unit in enumerate(blocks) if unit.get("ActiveState") in _ALIVE or _has_job(unit)}
        return Seen(
            alive=frozenset(alive),
            starting=frozenset(
                slot for slot in alive if blocks[slot].get("ActiveState") not in ("active", "reloading")
            ),
            note="; ".join(
                _restarts(name, unit) for name, unit in zip(self._units, blocks, strict=True) if _fails(unit)
            ),
        )

    def begin(self, slots: Sequence[int]) -> None:
        """Without waiting: a unit is started when its learner has welcomed it."""
        self._systemctl("start", "--no-block", "--", *(self._units[slot] for slot in slots))

    def cancel(self, slots: Sequence[int]) -> None:
        """systemd sends SIGTERM, and SIGKILL after the unit's TimeoutStopSec."""
        self._systemctl("stop", "--no-block", "--", *(self._units[slot] for slot in slots))

    def autopsy(self, slot: int) -> Ended:
        """By the unit's result; its last words are in the journal, if that may be read."""
        unit = self._shown[slot]
        result = unit.get("Result", "")
        if result == "success":
            return Ended(slot, 0)
        status = int(unit.get("ExecMainStatus") or 0)
        exit_code = status if unit.get("ExecMainCode") == _EXITED else 128 + status if status else 1
        told = f"{self._units[slot]}: {unit.get('LoadState')}, result {result}"
        return Ended(slot, exit_code or 1, "\n".join((told, *self._journal(unit.get("InvocationID", "")))))

    def _journal(self, invocation: str) -> list[str]:
        """What the unit's processes said, without what systemd says of it."""
        if not invocation:
            return []
        scope = ("--user",) if self._scope == "--user" else ()
        try:
            said = self.client.call(
                *("journalctl", *scope, "--no-pager", "--quiet", "--output=cat", f"--lines={_WORDS}"),
                f"_SYSTEMD_INVOCATION_ID={invocation}",
            ).check()
        except ClientError:
            return []
        return [last_line(line) for line in said.splitlines()]

    def _systemctl(self, *words: str) -> str:
        return self.client.call("systemctl", self._scope, "--no-ask-password", "--no-pager", *words).check()


def _properties(block: str) -> dict[str, str]:
    return {key: value for key, _, value in (line.partition("=") for line in block.splitlines())}


def _has_job(unit: Mapping[str, str]) -> bool:
    return unit.get("Job", "0") not in ("", "0")


def _fails(unit: Mapping[str, str]) -> bool:
    return unit.get("SubState", "").startswith("auto-restart")


def _restarts(name: str, unit: Mapping[str, str]) -> str:
    result, status = unit.get("Result"), unit.get("ExecMainStatus")
    return f"{name}: systemd is starting it again after result {result} (exit code {status})"
