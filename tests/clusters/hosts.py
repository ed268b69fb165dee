"""Hosts of a small network on this machine: network namespaces, joined by a switch that is one too.

Nothing outside of them changes, so that several test processes can each have their own with the same addresses.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


def missing() -> str | None:
    """Why there can be no such network here; None if there can."""
    if shutil.which("ip") is None:
        return "ip is not installed: apt-get install iproute2"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"dlcca-{os.getpid()}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    tried = subprocess.run(["ip", "netns", "exec", name, "true"], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    said = (made.stderr or tried.stderr).strip()
    return f"no network namespaces can be made: {said}" if made.returncode or tried.returncode else None


class Network:
    """Hosts by name, each with one cable to the switch."""

    def __init__(self, hosts: tuple[str, ...]) -> None:
        self.addresses = {host: f"10.77.0.{number}" for number, host in enumerate(hosts, start=1)}

    def command(self, host: str, *command: str) -> tuple[str, ...]:
        """A command as that host would run it; disk and processes are those of this machine."""
        return ("ip", "netns", "exec", _namespace(host), *command)

    def cut(self, host: str) -> None:
        """Pull the cable: nobody is told, packets just do not arrive."""
        _ip("-n", _namespace("switch"), "link", "set", host, "down")

    def mend(self, host: str) -> None:
        _ip("-n", _namespace("switch"), "link", "set", host, "up")

    def up(self) -> None:
        switch = _namespace("switch")
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for host, address in self.addresses.items():
            there = _namespace(host)
            _ip("netns", "add", there)
            _ip("-n", there, "link", "add", "eth0", "type", "veth", "peer", "name", host, "netns", switch)
            _ip("-n", there, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):  # lo: by it a host reaches its own address
                _ip("-n", there, "link", "set", device, "up")
            _ip("-n", switch, "link", "set", host, "master", "bridge", "up")

    def down(self) -> None:
        """Remove all hosts, and with them their cables."""
        for host in (*self.addresses, "switch"):
            subprocess.run(["ip", "netns", "del", _namespace(host)], capture_output=True, check=False)


@contextmanager
def network(*hosts: str) -> Iterator[Network]:
    """Hosts that reach each other; gone with the block."""
    made = Network(hosts)
    try:
        made.up()
        yield made
    finally:
        made.down()


def _namespace(host: str) -> str:
    return f"dlcca-{os.getpid()}-{host}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
