"""DDS domains that no other test is in."""

import os
import random
import socket

import pytest


def free_domain() -> int:
    """A domain whose first port nobody uses; skips where loopback cannot be used."""
    # Far from each other for tests that run side by side.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    candidates = list(range(2 + worker % 8, 98, 8))
    random.shuffle(candidates)
    for domain in candidates:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("127.0.0.1", 7400 + 250 * domain + 10))
            except OSError:
                continue
            return domain
    pytest.skip("no UDP port of DDS can be bound on the loopback interface")
