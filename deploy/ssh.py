"""The command line of ssh: by key, without a question, and only to hosts whose keys are known."""

from __future__ import annotations

from pathlib import Path

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


def ssh_command(target: str, config: Path | None = None) -> list[str]:
    """The words before the remote command line; `config` as `ssh -F` takes it, None: the user's own."""
    named = [] if config is None else ["-F", str(config)]
    options = [word for option in STRICT for word in ("-o", option)]
    return ["ssh", *named, "-T", *options, "--", target]
