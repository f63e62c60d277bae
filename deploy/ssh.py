"""The command line of ssh: by key, without a question, and only to hosts whose keys are known."""

from collections.abc import Sequence

SSH_FAILED = 255
"""Exit code of ssh when the connection failed; else it is that of the remote command."""
STRICT = (
    "BatchMode=yes",
    "PasswordAuthentication=no",
    "KbdInteractiveAuthentication=no",
    "StrictHostKeyChecking=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RequestTTY=no",
    "ControlMaster=no",
    "ControlPath=none",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ConnectTimeout=10",
)
"""Options of ssh. They come first on the command line, since ssh keeps the first value that it finds for an option."""


def ssh_command(target: str, options: Sequence[str] = (), config: str = "") -> list[str]:
    """The words before the remote command; `options` as KEY=VALUE, `config` a file as `ssh -F` takes it."""
    written = [word for option in (*STRICT, *options) for word in ("-o", option)]
    return ["ssh", *(("-F", config) if config else ()), "-T", *written, "--", target]
