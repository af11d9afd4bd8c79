"""The bytes of what is spoken: the messages of `cloudevents.proto`, written and read without generated code.

Five small messages need no library: what comes before a text depends on its attribute's name and its length alone, so writing an
attribute is a look-up and two pieces of the result; and what others write has one shape, which is read by position. What is legal
protobuf but has another shape (fields in another order, attributes of rare kinds) is read field by field. Either way a message is
read once, in linear time.

Attributes travel with `ce-` before their names, but for `contenttype`; an attribute without it says nothing to us. As Go's reader:
unknown fields are passed over, attributes' names are of letters and digits and read in lower case, an attribute must have a value,
an event without any attribute is none (but a heartbeat), and an event may be JSON as a whole (`structured`). Stricter than Go's: a
field that comes twice, or a field of the event that comes once more as an attribute, is refused, since no writer does that and two
readers may understand it in two ways; and a message of very many fields is refused for what it costs. Whatever is wrong is an
InvalidEvent, and nothing else is ever raised.
"""

from __future__ import annotations

from typing import Final

from muster.transport.contract.wire.decoder import decode_event, decode_publish_request, decode_subscription_request
from muster.transport.contract.wire.encoder import encode_event, encode_publish_request, encode_subscription_request

SERVICE: Final = "io.cloudevents.v1.CloudEventService"
PUBLISH: Final = f"/{SERVICE}/Publish"
SUBSCRIBE: Final = f"/{SERVICE}/Subscribe"
EMPTY: Final = b""
"""The answer to Publish."""

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
