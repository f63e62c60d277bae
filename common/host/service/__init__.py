"""How every daemon behaves as a service: signals, the lifeline to its parent, log lines, word to systemd."""
