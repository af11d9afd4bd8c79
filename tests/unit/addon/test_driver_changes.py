"""How often what agents say of their drivers takes something away."""

from __future__ import annotations

from muster.addon.driver_changes import REMOVALS, WINDOW, DriverChanges
from muster.machinery.objects import ObjectKey
from tests.support.fake_clock import FakeClock

ADDON, OTHER = ObjectKey("cluster1", "hello"), ObjectKey("cluster2", "hello")


def flipped(changes: DriverChanges, times: int = REMOVALS) -> None:
    for number in range(times + 1):
        assert changes.settle(ADDON, (("csr", "token")[number % 2],)) == ((("csr", "token")[number % 2],), None)


def test_what_is_named_counts_at_once_and_what_is_not_any_more_goes_at_once() -> None:
    changes = DriverChanges(FakeClock())
    assert changes.settle(ADDON, ("csr",)) == (("csr",), None)
    assert changes.settle(ADDON, ("token", "csr")) == (("token", "csr"), None)
    assert changes.settle(ADDON, ("token",)) == (("token",), None)
    assert changes.settle(ADDON, ()) == ((), None)


async def test_after_so_many_removals_what_is_not_named_stays_until_the_first_is_long_ago() -> None:
    clock = FakeClock()
    changes = DriverChanges(clock)
    flipped(changes)
    await clock.advance(1.0)
    for driver in ("token", "csr", "token", "csr", "token"):
        kept, again = changes.settle(ADDON, (driver,))
        assert (set(kept), kept[0], again) == ({"csr", "token"}, driver, WINDOW - 1.0)
    await clock.advance(WINDOW - 1.0)
    assert changes.settle(ADDON, ("token",)) == (("token",), None)


def test_one_addon_is_nothing_to_another_and_what_is_gone_is_forgotten() -> None:
    changes = DriverChanges(FakeClock())
    flipped(changes)
    changes.settle(OTHER, ("token",))
    assert changes.settle(OTHER, ()) == ((), None)
    changes.forget(ADDON)
    flipped(changes)
