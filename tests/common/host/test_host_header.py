from __future__ import annotations

import pytest

from common.host.host_header import Hosts, host_of, port_of


@pytest.mark.parametrize(
    ("header", "name", "port"),
    [
        ("localhost:8265", "localhost", "8265"),
        ("LOCALHOST", "localhost", ""),
        ("[::1]:8265", "::1", "8265"),
        ("[::1]", "::1", ""),
        ("", "", ""),
        ("[::1", "", ""),
        ("[::1]x", "", ""),
        ("localhost:x", "", ""),
        ("localhost:80:80", "", ""),
    ],
)
def test_the_host_and_the_port_of_a_header(header: str, name: str, port: str) -> None:
    assert (host_of(header), port_of(header)) == (name, port)


@pytest.mark.parametrize("header", ["127.0.0.1:8265", "localhost:9000", "[::1]:8265", "localhost", "gpu-box:1"])
def test_names_of_this_machine_are_allowed_at_any_port_as_through_ssh(header: str) -> None:
    assert Hosts(["GPU-box"], loopback=True).allow(header)


@pytest.mark.parametrize(
    "header", ["evil.example", "localhost.evil.example:8265", "evil.example:8265", "", "192.0.2.7"]
)
def test_other_names_are_not_wherever_they_lead(header: str) -> None:
    assert not Hosts([], loopback=True).allow(header)


def test_a_machine_without_a_name_does_not_allow_headers_without_one() -> None:
    hosts = Hosts([""], loopback=True)
    assert not hosts.allow("")
    assert not hosts.allow("[::1")


def test_beyond_this_machine_its_addresses_are_allowed_and_other_names_still_not() -> None:
    hosts = Hosts(["gpu-box"], loopback=False)
    assert hosts.allow("192.0.2.7:8265")
    assert hosts.allow("[2001:db8::1]:8265")
    assert hosts.allow("gpu-box:8265")
    assert not hosts.allow("evil.example:8265")


@pytest.mark.parametrize(
    ("origin", "same"),
    [
        ("http://localhost:8265", True),
        ("https://localhost:8265", True),
        ("http://LOCALHOST:8265", True),
        ("http://localhost:8266", False),
        ("http://evil.example", False),
        ("null", False),
        ("file://localhost:8265", False),
        ("", False),
    ],
)
def test_only_a_page_of_this_server_is_of_its_origin(origin: str, same: bool) -> None:
    assert Hosts([], loopback=True).same(origin, "localhost:8265") is same
