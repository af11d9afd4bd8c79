"""Counted as plain numbers, read at the scrape, and written so that Prometheus' own parser understands it."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster.machinery.metrics import Metrics


def parsed(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {(one.name, tuple(one.labels.items())): one.value for family in families for one in family.samples}


def test_what_is_counted_is_found_by_name_and_labels() -> None:
    metrics = Metrics()
    metrics.counter("asked_total", "How often", verb="get", code="200").inc()
    metrics.counter("asked_total", "How often", verb="get", code="200").inc(2)
    metrics.counter("asked_total", "How often", verb="get", code="404").inc()
    metrics.gauge("waiting", "How many", lambda: 7)
    metrics.counter_of("elsewhere_total", "", lambda: 3)
    assert parsed(metrics) == {
        ("asked_total", (("verb", "get"), ("code", "200"))): 3,
        ("asked_total", (("verb", "get"), ("code", "404"))): 1,
        ("waiting", ()): 7,
        ("elsewhere_total", ()): 3,
    }


def test_a_histogram_tells_how_many_were_at_most_so_long() -> None:
    metrics = Metrics()
    histogram = metrics.histogram("seconds", "How long", (0.1, 1.0), verb="get")
    for value in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(value)
    metrics.histogram("other_seconds", "", (1.0,)).observe(0.25)
    found = parsed(metrics)
    assert [found["seconds_bucket", (("verb", "get"), ("le", edge))] for edge in ("0.1", "1.0", "+Inf")] == [2, 3, 4]
    assert found["seconds_count", (("verb", "get"),)] == histogram.count == 4
    assert found["seconds_sum", (("verb", "get"),)] == pytest.approx(7.65)
    assert found["other_seconds_bucket", (("le", "1.0"),)] == 1


def test_counts_keep_all_their_digits() -> None:
    metrics = Metrics()
    metrics.counter("many_total", "").inc(123_456_789)
    metrics.histogram("seconds", "", (1.0,)).counts[0] = 12_345_678
    assert b"many_total 123456789\n" in metrics.render()
    assert b'seconds_bucket{le="1.0"} 12345678\n' in metrics.render()


def test_text_of_others_stays_inside_its_label() -> None:
    metrics = Metrics()
    odd = 'a"b\\c\nd'
    metrics.counter("odd_total", "", name=odd).inc()
    assert parsed(metrics) == {("odd_total", (("name", odd),)): 1}


def test_families_have_one_type_and_a_text_only_where_there_is_one() -> None:
    metrics = Metrics()
    metrics.counter("a_total", "Some").inc()
    metrics.gauge("b", "", lambda: 1)
    assert metrics.render().decode().splitlines() == [
        "# HELP a_total Some",
        "# TYPE a_total counter",
        "a_total 1",
        "# TYPE b gauge",
        "b 1",
    ]
    with pytest.raises(ValueError, match="a_total is a counter"):
        metrics.gauge("a_total", "", lambda: 1)


def test_gauges_that_come_and_go_are_read_with_their_labels() -> None:
    metrics, found = Metrics(), {"b": 2.0, "a": 1.0}
    metrics.gauges("streams", "Open.", lambda: [((("who", name),), value) for name, value in found.items()])
    assert metrics.render().decode().splitlines()[2:] == ['streams{who="a"} 1', 'streams{who="b"} 2']
    found.clear()
    assert metrics.render().decode().splitlines() == ["# HELP streams Open.", "# TYPE streams gauge"]
