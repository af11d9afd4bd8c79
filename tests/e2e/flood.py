"""Run as a program: `flood URL TOKEN CONNECTIONS SECONDS` lists everything over and over; prints how many lists were answered.

A process of its own, so that what a test measures beside it is the server's patience and not this interpreter's lock.
"""

from __future__ import annotations

import sys
import threading
import time

from tests.support.client import Client

ACCEPTS = ("application/json", "application/json;as=Table;v=v1;g=meta.k8s.io")


def main(url: str, token: str, connections: int, seconds: float) -> None:
    answered = [0] * connections
    end = time.monotonic() + seconds

    def flood(number: int) -> None:
        client = Client(url, token=token)
        while time.monotonic() < end:
            reply = client.get("/api/v1/configmaps", accept=ACCEPTS[answered[number] % 2])
            assert reply.status in (200, 429), reply.text[:200]
            answered[number] += 1

    threads = [threading.Thread(target=flood, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    print("flooding", flush=True)
    for thread in threads:
        thread.join()
    print(sum(answered))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
