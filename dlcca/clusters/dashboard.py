"""The dashboard: off, or on loopback of the machine where the scheduler runs. It has no password of its own."""

from __future__ import annotations

import getpass
import socket
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from dlcca.clusters.messages import Say

#: Any free port that only this machine can reach.
LOOPBACK = "127.0.0.1:0"


def say_dashboard(client: Any, shown: bool, say: Say) -> None:
    """Print the line that brings the dashboard to the reader's own machine."""
    if not shown:
        return
    if find_spec("bokeh") is None:
        say("The dashboard is asked for and cannot be shown: it needs bokeh (pip install bokeh).")
        return
    number = urlsplit(client.dashboard_link).port
    say(
        f"The dashboard is on this machine only. From yours: ssh -N -L {number}:127.0.0.1:{number} "
        f"{getpass.getuser()}@{socket.gethostname()}, then open http://127.0.0.1:{number}/status"
    )
