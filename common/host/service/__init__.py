"""A daemon as a service: signals, the lifeline to its parent, log lines, systemd notifications."""
