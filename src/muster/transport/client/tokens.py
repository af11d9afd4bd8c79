"""Tokens of service accounts on the hub: a TokenRequest is published, its response comes back on a separate stream.

The response is identified by a uid that we generate. The stream is opened for one request and closed after the response, so that a
token is never sent without a receiver, nor stored anywhere.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Final

from muster.machinery.clock import Clock, pause, within
from muster.machinery.objects import Object
from muster.runtime.client import KubeError, Unreachable
from muster.transport.client.connection import HubConnection
from muster.transport.codecs.objects import decode_object, encode_object
from muster.transport.contract.event import InvalidEvent
from muster.transport.contract.rows import TOKENS
from muster.transport.contract.types import HEARTBEAT, Action, EventType, InvalidType, Subresource
from muster.transport.contract.wire import decode_event
from muster.transport.rpc.interfaces import ClientStream

TOKEN_TIMEOUT: Final = 10.0
REPEAT_SECONDS: Final = 1.0
"""Seconds after which the request is repeated: responses of upstream's servers before they serve a stream are lost."""
_CREATE: Final = EventType(TOKENS.data_type, Subresource.SPEC, Action.CREATE)


async def request_token(
    connection: HubConnection, cluster: str, source: str, account: str, namespace: str, request: Object, clock: Clock
) -> Object:
    """The TokenRequest with its status. Raises KubeError."""
    uid = str(uuid.uuid4())
    document = {**request, "metadata": {"name": account, "namespace": namespace, "uid": uid}}
    event = encode_object(TOKENS, document, _CREATE, source=source, now=clock.now())

    async def request_once() -> Object:
        async with connection.subscribe(TOKENS, cluster) as (channel, stream):
            answer = asyncio.ensure_future(_answer(stream, uid, connection.server))
            try:
                await connection.publish_over(channel, event, TOKENS.resource, account, timeout=TOKEN_TIMEOUT)
                await _rest(answer, clock)
                if not answer.done():
                    await connection.publish_over(channel, event, TOKENS.resource, account, timeout=TOKEN_TIMEOUT)
                return await answer
            finally:
                answer.cancel()
                await asyncio.gather(answer, return_exceptions=True)

    try:
        return await within(clock, TOKEN_TIMEOUT, request_once())
    except TimeoutError:
        raise Unreachable(connection.server, f"no token for {namespace}/{account} within {TOKEN_TIMEOUT:g} s") from None


async def _rest(answer: asyncio.Future[Object], clock: Clock) -> None:
    """Wait for the response, or until it is time to repeat the request."""
    over = asyncio.Event()
    answer.add_done_callback(lambda _: over.set())
    await pause(clock, over, REPEAT_SECONDS)


async def _answer(stream: ClientStream, uid: str, server: str) -> Object:
    async for message in stream:
        try:
            event = decode_event(message)
            if event.type == HEARTBEAT:
                continue
            received = decode_object(TOKENS, event)
        except (InvalidEvent, InvalidType):
            continue
        if received.resource_id == uid and received.obj is not None:
            return received.obj
    problem: KubeError = Unreachable(server, "the server has ended the stream before it answered")
    raise problem
