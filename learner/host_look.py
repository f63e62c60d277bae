"""What the learner knows about the host that it runs on."""

from dataclasses import dataclass

from common.host.load import Load


@dataclass(frozen=True)
class HostLook:
    disk_free: int | None = None
    """Free bytes on the disk of the run folder; None: not known."""
    load: Load | None = None
