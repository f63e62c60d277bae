"""The command line of ssh: it logs in by key, asks no question, and connects only to hosts whose keys are known."""

from collections.abc import Sequence

SSH_FAILED = 255
"""Exit code of ssh when the connection failed; otherwise ssh ends with that of the remote command."""
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
    """Return the words before the remote command. `options`: KEY=VALUE each; `config`: a file for `ssh -F`."""
    written = [word for option in (*STRICT, *options) for word in ("-o", option)]
    return ["ssh", *(("-F", config) if config else ()), "-T", *written, "--", target]
