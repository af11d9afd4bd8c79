"""The encoding of the messages of `cloudevents.proto`, without generated code.

Five small messages need no library: the bytes before a text depend only on its attribute's name and its length, so encoding an
attribute is a lookup and two pieces of the result; and the messages of all known writers have one shape, which is decoded by
position. Other valid protobuf (fields in another order, rare attribute types) is decoded field by field. Either way a message is
read once, in linear time.

Attributes have the prefix `ce-`, except `contenttype`; attributes without it are ignored. As in Go's decoder: unknown fields are
ignored, attribute names consist of letters and digits and are converted to lower case, an attribute must have a value, an event
without any attribute is invalid (except a heartbeat), and a whole event may be JSON (`structured`). Stricter than Go's: a duplicate
field, or a field that is also an attribute, is refused, since no writer does that and two readers may understand it differently;
and a message with very many fields is refused for its cost. All errors are InvalidEvent.
"""

from __future__ import annotations

from typing import Final

from muster.transport.contract.wire.decoder import decode_event, decode_publish_request, decode_subscription_request
from muster.transport.contract.wire.encoder import encode_event, encode_publish_request, encode_subscription_request

SERVICE: Final = "io.cloudevents.v1.CloudEventService"
PUBLISH: Final = f"/{SERVICE}/Publish"
SUBSCRIBE: Final = f"/{SERVICE}/Subscribe"
EMPTY: Final = b""
"""The response to Publish."""

__all__ = [
    "EMPTY",
    "PUBLISH",
    "SERVICE",
    "SUBSCRIBE",
    "decode_event",
    "decode_publish_request",
    "decode_subscription_request",
    "encode_event",
    "encode_publish_request",
    "encode_subscription_request",
]
