"""Addresses of API servers: what is one, what an agent may not name, and that nothing else gets through."""

import ipaddress
import re
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.inventory.endpoints import InvalidEndpoint, parse_endpoint, parse_proxy, refuse_local, split_endpoints
from muster.gateway.target import Endpoint
from muster.machinery.printable import is_printable

AGENTS = ("https://api.example", "https://10.0.0.1:6443", "https://[fd00::1]", "https://100.64.0.1", "https://localhost.example")


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("https://api.example", Endpoint("api.example", 443)),
        ("HTTPS://API.Example:6443/", Endpoint("api.example", 6443)),
        ("https://127.0.0.1:9443/clusters/c1", Endpoint("127.0.0.1", 9443, "/clusters/c1")),
        ("https://[2001:DB8::1]:6443/k8s/clusters/c-1/", Endpoint("2001:db8::1", 6443, "/k8s/clusters/c-1")),
    ],
)
def test_an_https_url_is_read(text: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(text) == endpoint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.example:6443",
        "http://api.example",
        "ftp://api.example",
        "https://",
        "https:///path",
        "https://user:hunter2@api.example",
        "https://api.example?x=1",
        "https://api.example/#x",
        "https://api.example:0",
        "https://api.example:65536",
        "https://api.example:443:443",
        "https://api.example/../x",
        "https://api.example/./x",
        "https://api.example/a//b",
        "https://api.example/a%2e%2e/b",
        "https://api.example/a%2fb",
        "https://api.example\\@evil.example",
        "https://api.example/a\\b",
        "https://api.example/a b",
        "https://api.example\r\nHost: x",
        "https://api.example\x00",
        "https://-api.example",
        "https://api..example",
        "https://api.example.",
        "https://127.1",
        "https://2130706433",
        "https://0x7f000001",
        "https://0177.0.0.1",
        "https://1.2.3.4.5",
        "https://[::1",
        "https://[fe80::1%25eth0]",
        "https://[127.0.0.1]",
        "https://äpi.example",
        "https://" + "a" * 3000,
    ],
)
def test_what_is_no_plain_https_url_is_refused(text: str) -> None:
    with pytest.raises(InvalidEndpoint) as refusal:
        parse_endpoint(text)
    assert "hunter2" not in str(refusal.value)
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:6443",
        "https://127.9.9.9",
        "https://localhost",
        "https://LOCALHOST:6443",
        "https://x.localhost",
        "https://[::1]",
        "https://[::ffff:127.0.0.1]",
        "https://[::7f00:1]",
        "https://[64:ff9b::169.254.169.254]",
        "https://[2002:7f00:1::]",
        "https://0.0.0.0",
        "https://0.1.2.3",
        "https://[::]",
        "https://169.254.169.254",
        "https://[fe80::1]",
        "https://224.0.0.1",
        "https://[ff02::1]",
        "https://255.255.255.255",
        "https://hub.example/apis/proxy.open-cluster-management.io/v1alpha1/clustergateways/c1/proxy",
    ],
)
def test_an_agent_cannot_name_the_gateways_own_machine_or_link(url: str) -> None:
    with pytest.raises(InvalidEndpoint):
        refuse_local(parse_endpoint(url), loopback=False)


@pytest.mark.parametrize("url", AGENTS)
def test_an_agent_may_name_any_other_address(url: str) -> None:
    refuse_local(parse_endpoint(url), loopback=False)


def test_loopback_is_open_where_everything_is_on_one_machine_and_nothing_else_is() -> None:
    for url in ("https://127.0.0.1", "https://localhost", "https://[::1]", *AGENTS):
        refuse_local(parse_endpoint(url), loopback=True)
    for url in ("https://169.254.169.254", "https://0.0.0.0", "https://[fe80::1]"):
        with pytest.raises(InvalidEndpoint):
            refuse_local(parse_endpoint(url), loopback=True)


def test_several_addresses_stand_in_lines_or_between_commas() -> None:
    assert split_endpoints("https://a\nhttps://b, https://c\r\n\n") == ["https://a", "https://b", "https://c"]


@pytest.mark.parametrize("text", ["http://proxy:3128", "https://user:pass@proxy", "socks5://10.0.0.1:1080/", "http://[fd00::1]:80"])
def test_a_proxy_is_read_as_it_stands(text: str) -> None:
    assert parse_proxy(text) == text


@pytest.mark.parametrize(
    "text",
    ["proxy:3128", "ftp://proxy", "http://", "http://u:hunter2@proxy/x", "http://proxy:0", "http://proxy:99999", "http://a b"],
)
def test_what_is_no_proxy_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(InvalidEndpoint) as refusal:
        parse_proxy(text)
    assert "hunter2" not in str(refusal.value)


_HOSTILE = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="https:/.%@?#[]\\0123456789xabf -_\n", max_size=60).map(lambda rest: "https://" + rest),
    st.ip_addresses().map(lambda address: f"https://[{address}]" if address.version == 6 else f"https://{address}"),
)


def read(text: str) -> Endpoint | None:
    try:
        return parse_endpoint(text)
    except InvalidEndpoint as refusal:
        if not is_printable(str(refusal)):
            raise
        return None


@given(_HOSTILE)
def test_whatever_is_read_is_what_every_other_reader_sees(text: str) -> None:
    endpoint = read(text)
    if endpoint is None:
        return
    parts = urlsplit(text)
    assert parts.scheme == "https"
    assert (parts.port or 443) == endpoint.port
    assert parts.username is None
    host = str(parts.hostname)
    assert endpoint.host == (str(ipaddress.ip_address(host)) if ":" in host else host)
    assert re.fullmatch(r"(/[^/%\\?#\s]+)*", endpoint.base_path)
    assert not {".", ".."} & set(endpoint.base_path.split("/"))
    assert parse_endpoint(endpoint.url) == endpoint


@given(st.ip_addresses())
def test_no_address_of_this_machine_is_open_to_an_agent_in_any_form(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    host = f"[{address}]" if address.version == 6 else str(address)
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        with pytest.raises(InvalidEndpoint):
            refuse_local(parse_endpoint(f"https://{host}"), loopback=False)


@given(st.ip_addresses(network="127.0.0.0/8"), st.sampled_from(["::ffff:{}", "64:ff9b::{}", "::{}"]))
def test_loopback_is_seen_inside_an_ipv6_address(address: ipaddress.IPv4Address, form: str) -> None:
    with pytest.raises(InvalidEndpoint):
        refuse_local(parse_endpoint(f"https://[{form.format(address)}]"), loopback=False)
