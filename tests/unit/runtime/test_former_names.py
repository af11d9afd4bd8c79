"""Names under which programs of others may know what `muster.runtime` offers."""

from muster.runtime import auth, client


def test_former_names_are_those_of_today() -> None:
    assert (auth.Memory, auth.Standing) == (auth.TTLCache, auth.SubjectAccess)
    assert (client.Asking, client.Target, client.Watched) == (client.OutgoingRequest, client.WriteTarget, client.ReloadedFile)
