"""The server's metrics, with the names of OCM's server, so that its dashboards can be used.

`grpc_server_*` counts calls and messages, including unauthenticated ones; `grpc_server_ce_*` counts events by cluster (`consumer`)
and data type. A cluster becomes a label only after an agent of it was authorized, up to a limit: the rest, and bootstrap
identities, are counted under `other`. So callers cannot create series at will. Connections are one number: a series per remote
address would be unbounded.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

from muster.machinery.metrics import Labels, Metrics
from muster.transport.contract.types import DataType
from muster.transport.contract.wire import PUBLISH, SERVICE, SUBSCRIBE
from muster.transport.rpc.status import Code, RpcError
from muster.transport.server.broker import Broker
from muster.transport.services.interfaces import Caller, Service

M = TypeVar("M")

MAX_CLUSTERS: Final = 1_000
"""The most clusters with labels of their own."""
OTHER: Final = "other"
HANDLING_BUCKETS: Final = tuple(10.0**power for power in range(-6, 4))
PROCESSING_BUCKETS: Final = (0.005, 0.05, 0.5, 5.0)
"""Few, because there is a histogram per cluster and data type."""
_KINDS: Final[Mapping[str, str]] = {PUBLISH: "unary", SUBSCRIBE: "server_stream"}


class CallMetrics:
    """A `CallObserver` of the gRPC server: all calls."""

    def __init__(self, metrics: Metrics) -> None:
        self._methods = {method: _MethodSeries(metrics, method, kind) for method, kind in _KINDS.items()}

    def started(self, method: str) -> None:
        self._methods[method].started.inc()

    def received(self, method: str, size: int) -> None:
        series = self._methods[method]
        series.received.inc()
        series.received_bytes.inc(size)

    def sent(self, method: str, size: int) -> None:
        series = self._methods[method]
        series.sent.inc()
        series.sent_bytes.inc(size)

    def handled(self, method: str, code: Code, seconds: float) -> None:
        series = self._methods[method]
        series.handled(code).inc()
        series.seconds.observe(seconds)


class MeasuredCall:
    """The metrics of a call under way: `series` is set once it is authorized, `sent` is counted at its end."""

    __slots__ = ("sent", "series")

    def __init__(self) -> None:
        self.series: _EventSeries | None = None
        self.sent = 0


class EventMetrics:
    """Metrics of calls about events of clusters."""

    def __init__(self, metrics: Metrics, broker: Broker, unknown: Mapping[DataType, int]) -> None:
        """`unknown`: the number of unknown ids in resync requests."""
        self._metrics = metrics
        self._broker = broker
        self._series: dict[tuple[str, str, DataType], _EventSeries] = {}
        self._clusters: set[str] = set()
        metrics.gauges("grpc_server_ce_subscribers", "Streams by cluster and data type.", self._subscribers)
        for data_type, service in broker.services.items():
            metrics.gauge(
                "grpc_server_ce_unserved",
                "Whether the hub does not serve the kind of a data type.",
                partial(_is_unserved, service),
                data_type=str(data_type),
            )
        for name, text, counts in (
            ("oversized", "Events not sent because agents cannot receive any so large.", broker.oversized),
            ("unfit", "Objects not sent because no event could be made of them.", broker.unfit),
            (
                "resync_unknown",
                "Ids in resync requests without a name, for which the server could not determine whether the object exists.",
                unknown,
            ),
        ):
            for data_type in broker.services:
                read = partial(counts.__getitem__, data_type)
                metrics.counter_of(f"grpc_server_ce_{name}_total", text, read, data_type=str(data_type))

    @contextmanager
    def call(self) -> Iterator[MeasuredCall]:
        measured = MeasuredCall()
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
            if measured.series is not None:
                measured.series.ended(code, measured.sent, time.perf_counter() - began)

    def authorized(self, measured: MeasuredCall, method: str, caller: Caller, data_type: DataType) -> None:
        """The call is about events of the caller's cluster."""
        if caller.is_agent and len(self._clusters) < MAX_CLUSTERS:
            self._clusters.add(caller.cluster)
        key = method, self._consumer(caller.cluster), data_type
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _EventSeries(self._metrics, *key)
        measured.series = series
        series.called.inc()
        series.received.inc()

    def _consumer(self, cluster: str) -> str:
        return cluster if cluster in self._clusters else OTHER

    def _subscribers(self) -> Iterable[tuple[Labels, float]]:
        tally: Tally[Labels] = Tally()
        for (cluster, data_type), streams in self._broker.counts().items():
            tally[("consumer", self._consumer(cluster)), ("data_type", str(data_type))] += streams
        return tally.items()


class _MethodSeries:
    def __init__(self, metrics: Metrics, method: str, kind: str) -> None:
        labels = {"grpc_method": _short(method), "grpc_service": SERVICE, "grpc_type": kind}
        self.started = metrics.counter("grpc_server_started_total", "Calls that were begun.", **labels)
        self.received = metrics.counter("grpc_server_msg_received_total", "Messages received.", **labels)
        self.received_bytes = metrics.counter("grpc_server_msg_received_bytes_total", "Bytes of messages received.", **labels)
        self.sent = metrics.counter("grpc_server_msg_sent_total", "Messages sent.", **labels)
        self.sent_bytes = metrics.counter("grpc_server_msg_sent_bytes_total", "Bytes of messages sent.", **labels)
        self.seconds = metrics.histogram("grpc_server_handling_seconds", "How long calls took.", HANDLING_BUCKETS, **labels)
        self.handled = _by_code(
            lambda code: metrics.counter("grpc_server_handled_total", "Calls that ended.", **labels, grpc_code=code_name(code))
        )


class _EventSeries:
    def __init__(self, metrics: Metrics, method: str, consumer: str, data_type: DataType) -> None:
        labels = {"consumer": consumer, "data_type": str(data_type), "method": _short(method)}
        self.called = metrics.counter("grpc_server_ce_called_total", "Calls about events.", **labels)
        self.received = metrics.counter("grpc_server_ce_msg_received_total", "Messages about events received.", **labels)
        self._sent = metrics.counter("grpc_server_ce_msg_sent_total", "Messages about events sent.", **labels)
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

    def ended(self, code: Code, sent: int, seconds: float) -> None:
        self._sent.inc(sent)
        self._processed(code).inc()
        self._seconds(code).observe(seconds)


def _by_code(make: Callable[[Code], M]) -> Callable[[Code], M]:
    """Series by code, created when a call first ends with it."""
    made: dict[Code, M] = {}

    def get(code: Code) -> M:
        found = made.get(code)
        if found is None:
            found = made[code] = make(code)
        return found

    return get


def _is_unserved(service: Service) -> float:
    return float(not service.served)


def _short(method: str) -> str:
    return method.rpartition("/")[2]


def code_name(code: Code) -> str:
    """In the format of Go's gRPC: `PermissionDenied`."""
    return "OK" if code is Code.OK else code.name.title().replace("_", "").replace("Cancelled", "Canceled")
