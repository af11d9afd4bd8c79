"""Another client, in a process of its own: asks for something small all the time and tells how long it waited, a line each."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.fuzz.cost.processor import processor_seconds
from tests.support.client import Client

_BREATH = 0.005


def main() -> None:
    url, ca, token, pid = sys.argv[1:]
    client = Client(url, ca=Path(ca), token=token, timeout=300)
    while True:
        began, spent = time.monotonic(), processor_seconds(int(pid))
        assert client.get("/version").status == 200
        print(time.monotonic() - began, processor_seconds(int(pid)) - spent, flush=True)
        time.sleep(_BREATH)


if __name__ == "__main__":
    main()
