"""Which proxy the environment names for a server: Go's rules, which users of Kubernetes know."""

import pytest

from muster.runtime.client.errors import KubeError
from muster.runtime.client.proxies import proxy_for

PROXY = "http://proxy:3128"
HUB = "https://api.hub.example.com:6443"


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        (HUB, {}, ""),
        (HUB, {"HTTPS_PROXY": PROXY}, PROXY),
        (HUB, {"https_proxy": PROXY}, PROXY),
        (HUB, {"HTTPS_PROXY": PROXY, "https_proxy": "http://other"}, PROXY),
        (HUB, {"HTTPS_PROXY": "", "https_proxy": PROXY}, PROXY),
        (HUB.upper(), {"HTTPS_PROXY": PROXY}, PROXY),
        (HUB, {"HTTP_PROXY": PROXY}, ""),
        (HUB, {"HTTPS_PROXY": "proxy:3128"}, PROXY),
        (HUB, {"HTTPS_PROXY": "https://user:secret@proxy"}, "https://user:secret@proxy"),
        ("http://hub", {"HTTP_PROXY": PROXY}, PROXY),
        ("http://hub", {"HTTPS_PROXY": PROXY}, ""),
    ],
)
def test_the_environment_names_one_for_each_scheme(server: str, environ: dict[str, str], proxy: str) -> None:
    assert proxy_for(server, environ) == proxy


@pytest.mark.parametrize("server", ["https://localhost:6443", "https://127.0.0.1", "https://127.8.9.1:1", "https://[::1]:6443"])
def test_this_machine_is_reached_without(server: str) -> None:
    assert proxy_for(server, {"HTTPS_PROXY": PROXY}) == ""


@pytest.mark.parametrize(
    ("server", "exceptions", "direct"),
    [
        (HUB, "*", True),
        (HUB, "api.hub.example.com", True),
        (HUB, " Example.COM , other", True),
        (HUB, ".example.com", True),
        (HUB, "*.example.com", True),
        (HUB, "example.com:6443", True),
        (HUB, "example.com:443", False),
        (HUB, ".api.hub.example.com", False),
        (HUB, "ple.com", False),
        (HUB, "*ple.com", False),
        (HUB, "", False),
        (HUB, ",,:6443", False),
        (HUB, "10.0.0.0/8", False),
        ("https://api.hub.example.com.", "example.com", True),
        ("https://hub", "hub:443", True),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://10.1.2.3:6443", "other, 10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.9.9.9/8", True),
        ("https://10.1.2.3:6443", "11.0.0.0/8", False),
        ("https://10.1.2.3:6443", "10.0.0.0/99", False),
        ("https://10.1.2.3:6443", "10.1.2", False),
        ("https://[fd00::1]:6443", "fd00::1", True),
        ("https://[fd00::1]:6443", "fd00:0::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "[fd00::1]:443", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "10.0.0.0/8", False),
    ],
)
def test_exceptions_may_be_names_addresses_and_networks(server: str, exceptions: str, direct: bool) -> None:
    assert proxy_for(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}) == ("" if direct else PROXY)
    assert proxy_for(server, {"HTTPS_PROXY": PROXY, "no_proxy": exceptions}) == ("" if direct else PROXY)


@pytest.mark.parametrize("proxy", ["socks5://user:secret@proxy:1080", "http://"])
def test_a_proxy_of_another_kind_is_refused_without_its_password(proxy: str) -> None:
    with pytest.raises(KubeError, match="HTTPS_PROXY in the environment: only http and https proxies are supported") as refused:
        proxy_for(HUB, {"HTTPS_PROXY": proxy})
    assert "secret" not in str(refused.value)
