"""Tells a daemon's service manager and operator whether it has a learner, and if not, why."""

import logging

from common.host.addresses import Address
from common.host.service.notify import Notifier
from common.wire.membership import KEPT_OUT, Membership


class Telling:
    def __init__(self, log: logging.Logger, notifier: Notifier, learner: Address, wait: float) -> None:
        """`wait`: longest time without a learner, in seconds; 0: no limit."""
        self._log = log
        self._notifier = notifier
        self._learner = learner
        self._wait = wait
        self._told = ""
        """The status last sent to the service manager."""
        self.doing = ""
        """What the daemon does while it has a learner; the status then."""

    def look(self, now: float, membership: Membership) -> None:
        """Tells what has changed. Raises UnavailableError after `wait` seconds without a learner."""
        membership.give_up(now, self._wait)
        obstacle = membership.obstacle
        waiting = f"{KEPT_OUT}{obstacle}" if obstacle else f"waiting for the learner at {self._learner}"
        told = self.doing if membership.member else waiting
        if told != self._told:
            self._told = told
            self._notifier.status(told)
        waited = membership.notice(now)
        if waited is None:
            return
        if obstacle:
            self._log.warning("%s; trying again, ever more slowly", obstacle)
        else:
            self._log.warning("no answer from the learner at %s for %.0f s; waiting for it", self._learner, waited)
