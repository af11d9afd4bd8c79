"""The TLS context of the gateway's port, when certificate and authorities change at once."""

import asyncio
import ssl
import threading
from collections.abc import Callable
from typing import cast

import pytest

from muster.gateway.serving_tls import ServingTls
from muster.runtime.webhook import ServingPair
from tests.support.eventually import eventually
from tests.support.fake_clock import settle

FIRST, SECOND = ServingPair(b"cert1", b"key1", b""), ServingPair(b"cert2", b"key2", b"")
PATIENCE = 20.0


class Port:
    """What is served with, and makers of contexts that wait until they may go on."""

    def __init__(self) -> None:
        self.authorities = b"nobody"
        self.served: list[tuple[bytes, bytes]] = []
        self.making: list[tuple[bytes, bytes]] = []
        self._released = threading.Event()
        self._released.set()
        self.tls = ServingTls(lambda: self.authorities, self._replace, make=self._make)

    def _make(self, cert: bytes, key: bytes, authorities: bytes) -> ssl.SSLContext:
        self.making.append((cert, authorities))
        assert self._released.wait(PATIENCE)
        if cert == b"unusable":
            raise ssl.SSLError("no certificate")
        return cast(ssl.SSLContext, (cert, authorities))

    def _replace(self, context: ssl.SSLContext) -> None:
        self.served.append(cast(tuple[bytes, bytes], context))

    def hold(self) -> None:
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    def rotate(self, authorities: bytes) -> None:
        self.authorities = authorities
        self.tls.authorities_changed()


async def until(condition: Callable[[], bool], what: str) -> None:
    async def look() -> bool:
        return condition()

    await eventually(look, what, PATIENCE, poll=0.005)


def is_current(port: Port) -> bool:
    return port.tls.is_current


@pytest.fixture
def port() -> Port:
    return Port()


async def test_authorities_that_come_while_a_certificate_is_taken_up_are_the_ones_that_stay(port: Port) -> None:
    await port.tls.initial_context(FIRST)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(port.tls.run())
        port.hold()
        tasks.create_task(port.tls.set_certificate(SECOND))
        await until(lambda: len(port.making) == 2, "the certificate is taken up")
        port.rotate(b"hub")
        await settle()
        port.release()
        await until(lambda: is_current(port), "the authorities are taken up")
        following.cancel()
    assert port.served == [(b"cert2", b"nobody"), (b"cert2", b"hub")]


async def test_it_is_not_current_until_new_connections_are_verified_by_the_newest_authorities(port: Port) -> None:
    await port.tls.initial_context(FIRST)
    assert is_current(port)
    port.rotate(b"hub")
    assert not is_current(port)
    following = asyncio.create_task(port.tls.run())
    await until(lambda: is_current(port), "the authorities are taken up")
    following.cancel()
    assert port.served == [(b"cert1", b"hub")]


async def test_the_certificate_that_is_served_already_makes_no_other_context(port: Port) -> None:
    await port.tls.initial_context(FIRST)
    await port.tls.set_certificate(FIRST)
    assert port.making == [(b"cert1", b"nobody")]
    assert port.served == []


async def test_a_certificate_that_cannot_be_used_leaves_the_one_before(port: Port) -> None:
    await port.tls.initial_context(FIRST)
    with pytest.raises(OSError, match="no certificate"):
        await port.tls.set_certificate(ServingPair(b"unusable", b"", b""))
    following = asyncio.create_task(port.tls.run())
    port.rotate(b"hub")
    await until(lambda: is_current(port), "the authorities are taken up")
    following.cancel()
    assert port.served == [(b"cert1", b"hub")]
