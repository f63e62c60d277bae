"""What the learner knows of the host that it runs on."""

from dataclasses import dataclass

from common.host.load import Load


@dataclass(frozen=True)
class HostLook:
    disk_free: int | None = None
    """Bytes that the disk of the run folder has left; None: it did not say."""
    load: Load | None = None
