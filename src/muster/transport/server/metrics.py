"""What the server counts, under the names of OCM's server, so that its dashboards fit.

`grpc_server_*` counts calls and messages; `grpc_server_ce_*` counts events by cluster (`consumer`) and data type. A cluster
becomes a label only when a call for it was authorized, and only so many do: the rest is counted under `other`. So no caller can
make series at will. Connections are one number: a series per remote address would grow for ever.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Final, TypeVar

from muster.machinery.metrics import Labels, Metrics
from muster.transport.contract.types import DataType
from muster.transport.contract.wire import SERVICE
from muster.transport.rpc.status import Code, RpcError
from muster.transport.server.broker import Broker

M = TypeVar("M")

MAX_CLUSTERS: Final = 1_000
"""That have labels of their own."""
OTHER: Final = "other"
HANDLING_BUCKETS: Final = tuple(10.0**power for power in range(-6, 4))
PROCESSING_BUCKETS: Final = (0.005, 0.05, 0.5, 5.0)
"""Few, because there are as many histograms as clusters and data types."""


class Method(Enum):
    PUBLISH = "Publish", "unary"
    SUBSCRIBE = "Subscribe", "server_stream"


class MeasuredCall:
    """What becomes known of a call while it runs: `events` once it is authorized, what was `sent` when it ends."""

    __slots__ = ("events", "sent")

    def __init__(self) -> None:
        self.events: _EventSeries | None = None
        self.sent = 0


class CallMetrics:
    def __init__(self, metrics: Metrics, broker: Broker) -> None:
        self._metrics = metrics
        self._broker = broker
        self._methods = {method: _MethodSeries(metrics, method) for method in Method}
        self._events: dict[tuple[Method, str, DataType], _EventSeries] = {}
        self._clusters: set[str] = set()
        metrics.gauges("grpc_server_ce_subscribers", "Streams by cluster and data type.", self._subscribers)
        metrics.gauges("grpc_server_ce_oversized", "Events not sent because agents cannot receive any so large.", self._oversized)

    @contextmanager
    def call(self, method: Method, received: int) -> Iterator[MeasuredCall]:
        series, measured = self._methods[method], MeasuredCall()
        series.started.inc()
        series.received.inc()
        series.received_bytes.inc(received)
        code, began = Code.OK, time.perf_counter()
        try:
            yield measured
        except RpcError as error:
            code = error.code
            raise
        except BaseException:
            code = Code.CANCELLED
            raise
        finally:
            seconds = time.perf_counter() - began
            series.handled(code).inc()
            series.seconds.observe(seconds)
            series.sent.inc(measured.sent)
            if measured.events is not None:
                measured.events.sent.inc(measured.sent)
                measured.events.ended(code, seconds)

    def authorized(self, measured: MeasuredCall, method: Method, cluster: str, data_type: DataType) -> None:
        """The call is about a cluster's events."""
        key = method, self._consumer(cluster), data_type
        series = self._events.get(key)
        if series is None:
            series = self._events[key] = _EventSeries(self._metrics, *key)
        measured.events = series
        series.called.inc()
        series.received.inc()

    def _consumer(self, cluster: str) -> str:
        if cluster not in self._clusters:
            if len(self._clusters) >= MAX_CLUSTERS:
                return OTHER
            self._clusters.add(cluster)
        return cluster

    def _subscribers(self) -> Iterable[tuple[Labels, float]]:
        tally: Tally[Labels] = Tally()
        for (cluster, data_type), streams in self._broker.counts().items():
            tally[("consumer", self._consumer(cluster)), ("data_type", str(data_type))] += streams
        return tally.items()

    def _oversized(self) -> Iterable[tuple[Labels, float]]:
        return [((("data_type", str(data_type)),), count) for data_type, count in self._broker.oversized.items()]


class _MethodSeries:
    def __init__(self, metrics: Metrics, method: Method) -> None:
        name, kind = method.value
        labels = {"grpc_method": name, "grpc_service": SERVICE, "grpc_type": kind}
        self.started = metrics.counter("grpc_server_started_total", "Calls that were begun.", **labels)
        self.received = metrics.counter("grpc_server_msg_received_total", "Messages received.", **labels)
        self.received_bytes = metrics.counter("grpc_server_msg_received_bytes_total", "Bytes of messages received.", **labels)
        self.sent = metrics.counter("grpc_server_msg_sent_total", "Messages sent.", **labels)
        self.seconds = metrics.histogram("grpc_server_handling_seconds", "How long calls took.", HANDLING_BUCKETS, **labels)
        self.handled = _by_code(
            lambda code: metrics.counter("grpc_server_handled_total", "Calls that ended.", **labels, grpc_code=code_name(code))
        )


class _EventSeries:
    def __init__(self, metrics: Metrics, method: Method, consumer: str, data_type: DataType) -> None:
        labels = {"consumer": consumer, "data_type": str(data_type), "method": method.value[0]}
        self.called = metrics.counter("grpc_server_ce_called_total", "Calls about events.", **labels)
        self.received = metrics.counter("grpc_server_ce_msg_received_total", "Messages about events received.", **labels)
        self.sent = metrics.counter("grpc_server_ce_msg_sent_total", "Messages about events sent.", **labels)
        self._processed = _by_code(
            lambda code: metrics.counter(
                "grpc_server_ce_processed_total", "Calls about events that ended.", **labels, grpc_code=code_name(code)
            )
        )
        self._seconds = _by_code(
            lambda code: metrics.histogram(
                "grpc_server_ce_processing_duration_seconds",
                "How long calls about events took.",
                PROCESSING_BUCKETS,
                **labels,
                grpc_code=code_name(code),
            )
        )

    def ended(self, code: Code, seconds: float) -> None:
        self._processed(code).inc()
        self._seconds(code).observe(seconds)


def _by_code(make: Callable[[Code], M]) -> Callable[[Code], M]:
    """Made when a call first ends so."""
    made: dict[Code, M] = {}

    def get(code: Code) -> M:
        found = made.get(code)
        if found is None:
            found = made[code] = make(code)
        return found

    return get


def code_name(code: Code) -> str:
    """As Go's gRPC writes it: `PermissionDenied`."""
    return "OK" if code is Code.OK else code.name.title().replace("_", "").replace("Cancelled", "Canceled")
