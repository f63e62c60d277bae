from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import ConfigurationError
from deploy.backends.hosts import Host, parse, read, share_out


@pytest.mark.parametrize(
    ("text", "host", "name"),
    [
        ("h2", Host("h2"), "h2"),
        (" ann@lab-07.example:12 ", Host("ann@lab-07.example", 12), "lab-07.example"),
        ("10.77.0.2:4", Host("10.77.0.2", 4), "10.77.0.2"),
        ("ann@[fe80::1%eth0]:2", Host("ann@fe80::1%eth0", 2), "fe80__1_eth0"),
    ],
)
def test_a_host(text: str, host: Host, name: str) -> None:
    assert parse(text) == host
    assert host.name == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-oProxyCommand=x",
        "a b",
        "h2:0",
        "h2:00",
        "h2:",
        "h2:x",
        "@h2",
        "a@-h",
        "h;id",
        "$(id)",
        "ssh://h2",
        "h2\nh3",
    ],
)
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is no host: write USER@HOST:SLOTS"):
        parse(text)


def test_a_file_of_hosts(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# the lab\nann@h2:4  # old\n\nh3\n")
    assert read(file) == [Host("ann@h2", 4), Host("h3")]
    file.write_text("h2\nh 3\n")
    with pytest.raises(ConfigurationError, match=r"hosts, line 2: 'h 3' is no host"):
        read(file)
    with pytest.raises(ConfigurationError, match="No such file"):
        read(tmp_path / "none")


@pytest.mark.parametrize(
    ("hosts", "slots", "shared"),
    [
        ([Host("a", 2), Host("b", 3)], None, [2, 3]),
        ([Host("a", 2), Host("b", 3)], 4, [2, 3]),
        ([Host("a"), Host("b", 3), Host("c")], 8, [3, 3, 2]),
    ],
)
def test_slots_are_shared_out(hosts: list[Host], slots: int | None, shared: list[int]) -> None:
    assert [host.slots for host in share_out(hosts, slots)] == shared


@pytest.mark.parametrize(
    ("hosts", "slots", "why"),
    [
        ([Host("a"), Host("b", 3)], None, r"how many actors may run on a\?"),
        ([Host("a"), Host("b", 3)], 3, r"how many actors may run on a\?"),
        ([Host("a", 2)], 3, "--slots 3, but the hosts have 2 together"),
        ([Host("a", 2), Host("ann@a", 2)], None, "named more than once: a, ann@a"),
        ([Host("a", 4000), Host("b", 97)], None, "more than 4096"),
    ],
)
def test_slots_that_cannot_be(hosts: list[Host], slots: int | None, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        share_out(hosts, slots)
