"""The address and credential for a cluster: kubeconfig files, kubeconfigs from Secrets, and the in-cluster environment.

The result is a frozen `ClientConfig`. Files that may be rotated (certificates, keys, tokens) remain paths, which `credentials.py`
reads when they change; embedded data are bytes. Nothing is connected or run here. Every error is a `KubeconfigError` with file,
context and field. Secrets never appear in an error or in a `repr`.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from muster.kube import yaml
from muster.machinery import confinement

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

_HEADER_SAFE = "!#$&'*+-.^_`|~"
"""Characters allowed in a header name besides letters and digits; others are percent-encoded, and decoded by the server."""

_FILES = frozenset(("certificate-authority", "client-certificate", "client-key", "tokenFile"))
"""Fields of clusters and users that are paths."""

Material = bytes | Path
"""A certificate or key: its PEM text, or the path of its file, which may change."""


class KubeconfigError(Exception):
    """`source` is the file, `where` the context, cluster or user, `field` the key inside it."""

    def __init__(self, source: str, where: str, field: str, problem: str) -> None:
        parts = [source, where, field]
        super().__init__(f"{': '.join(part for part in parts if part)}: {problem}")
        self.source = source
        self.where = where
        self.field = field
        self.problem = problem


@dataclass(frozen=True)
class ExecPlugin:
    """A program that prints an ExecCredential."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = EXEC_VERSIONS[0]
    provide_cluster_info: bool = False
    install_hint: str = ""


@dataclass(frozen=True)
class AuthInfo:
    """The client credential: the first of exec plugin, token file, token and password that is set, together with a client
    certificate."""

    cert: Material | None = field(default=None, repr=False)
    key: Material | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    exec_plugin: ExecPlugin | None = None
    impersonate: tuple[tuple[str, str], ...] = ()
    """Impersonation headers."""


@dataclass(frozen=True)
class ClientConfig:
    server: str
    ca: Material | None = field(default=None, repr=False)
    tls_server_name: str = ""
    insecure: bool = False
    proxy_url: str = ""
    namespace: str = ""
    identity: AuthInfo = field(default_factory=AuthInfo)
    extensions: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Of the cluster entry; `client.authentication.k8s.io/exec` is passed to a plugin with provideClusterInfo."""
    cluster: str = field(default="", compare=False)
    """The name of the cluster in the kubeconfig."""


def load_kubeconfig(path: Path | str | None = None, context: str = "", environ: Mapping[str, str] | None = None) -> ClientConfig:
    """One context (by default the current one) of a file, or of $KUBECONFIG or ~/.kube/config as kubectl reads them. A `path` is
    resolved in the file system of this process; paths from `environ` in that of the pod that the environment belongs to."""
    return _resolve(_documents(path, environ), context)


def context_names(path: Path | str | None = None, environ: Mapping[str, str] | None = None) -> list[str]:
    """The names of the contexts that `load_kubeconfig` reads, in order. Raises KubeconfigError."""
    listed = [one for document in _documents(path, environ) for one in document.content.get("contexts") or ()]
    return list(dict.fromkeys(str(one["name"]) for one in listed if isinstance(one, dict) and "name" in one))


def load_context(
    source: Path | str | Mapping[str, Any] | None = None, context: str = "", environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """One context of what `load_kubeconfig` reads (or of a document), as a kubeconfig: cluster and user are unchanged, but paths
    are absolute. For tools that read kubeconfigs themselves; it may contain secrets."""
    documents = [_Document("kubeconfig", Path(), source)] if isinstance(source, Mapping) else _documents(source, environ)
    entry, cluster, user = _find(documents, context)
    named = entry.text("cluster"), entry.text("user")
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": named[0], "cluster": cluster.relocated()}],
        "users": [{"name": named[1], "user": user.relocated()}] if user is not None else [],
        "contexts": [{"name": entry.name, "context": dict(entry.values)}],
        "current-context": entry.name,
    }


def _documents(path: Path | str | None, environ: Mapping[str, str] | None) -> list[_Document]:
    if path is not None:
        return [_read(Path(path))]
    paths = _usual(confinement.environ() if environ is None else environ)
    existing = [candidate for candidate in paths if candidate.exists()]
    if not existing:
        raise KubeconfigError(os.pathsep.join(map(confinement.shown, paths)), "", "", "no such file")
    return [_read(one) for one in existing]


def _usual(environ: Mapping[str, str]) -> list[Path]:
    listed = [confinement.located(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return listed
    home = environ.get("HOME", "")
    if confinement.current() is None:
        return [Path(home or "~").expanduser() / ".kube" / "config"]
    return [confinement.located(f"{home}/.kube/config")]


def parse_kubeconfig(text: bytes | str, context: str = "", source: str = "kubeconfig", base: Path | None = None) -> ClientConfig:
    """A kubeconfig that is no file, e.g. of a Secret; relative paths in it are resolved from `base`."""
    return _resolve([_Document.parse(text, source, base or Path())], context)


def in_cluster_config(root: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] | None = None) -> ClientConfig:
    """The configuration in a pod: the address of the service `kubernetes`, and the service account's token and CA, which are
    rotated."""
    root, environ = confinement.located(str(root)), confinement.environ() if environ is None else environ
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError("in-cluster", "environment", "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT", "not set")
    token, ca, namespace = root / "token", root / "ca.crt", root / "namespace"
    if not token.exists():
        raise KubeconfigError("in-cluster", str(token), "", "no such file; is the service account's token mounted?")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ClientConfig(
        server,
        ca if ca.exists() else None,
        namespace=confinement.read(namespace).decode().strip() if namespace.exists() else "",
        identity=AuthInfo(token_file=token),
    )


def _read(path: Path) -> _Document:
    try:
        text = confinement.read(path)
    except OSError as error:
        raise KubeconfigError(confinement.shown(path), "", "", error.strerror or str(error)) from error
    return _Document.parse(text, confinement.shown(path), path.parent)


@dataclass(frozen=True)
class _Document:
    source: str
    base: Path
    content: Mapping[str, Any]

    @classmethod
    def parse(cls, text: bytes | str, source: str, base: Path) -> _Document:
        try:
            content = yaml.load(text)
        except yaml.YAMLError as error:
            raise KubeconfigError(source, "", "", str(error)) from None
        if not isinstance(content, dict):
            raise KubeconfigError(source, "", "", "not a kubeconfig: expected a map")
        return cls(source, base, content)

    def entry(self, collection: str, kind: str, name: str) -> _Entry | None:
        listed = self.content.get(collection)
        if not isinstance(listed, list | None):
            raise KubeconfigError(self.source, "", collection, "must be a list")
        for item in listed or ():
            if isinstance(item, dict) and item.get("name") == name:
                value = item.get(kind)
                if not isinstance(value, dict | None):
                    raise KubeconfigError(self.source, f"{kind} {name!r}", "", "must be a map")
                return _Entry(self, f"{kind} {name!r}", value or {}, name)
        return None


@dataclass(frozen=True)
class _Entry:
    """One named cluster, user or context; errors have its name."""

    document: _Document
    where: str
    values: Mapping[str, Any]
    name: str = ""

    def error(self, field: str, problem: str) -> KubeconfigError:
        return KubeconfigError(self.document.source, self.where, field, problem)

    def text(self, field: str) -> str:
        value = self.values.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(field, "must be a string")
        return value

    def flag(self, field: str) -> bool:
        value = self.values.get(field)
        if not isinstance(value, bool | None):
            raise self.error(field, "must be true or false")
        return bool(value)

    def texts(self, field: str) -> tuple[str, ...]:
        value = self.values.get(field)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(field, "must be a list of strings")
        return tuple(value)

    def file(self, field: str) -> Path | None:
        """Raises KubeconfigError for a file that the owner of the document must not read."""
        value = self.text(field)
        try:
            return confinement.own(confinement.sibling_path(self.document.base, value)) if value else None
        except OSError as error:
            raise self.error(field, error.strerror or str(error)) from None

    def relocated(self) -> dict[str, Any]:
        """The entry with absolute paths, for use in another directory."""
        found = {name: value for name, value in self.values.items() if value is not None}
        for name in _FILES & found.keys():
            if path := self.file(name):
                found[name] = str(path.absolute())
        plugin = found.get("exec")
        if isinstance(plugin, dict) and isinstance(plugin.get("command"), str):
            found["exec"] = {**plugin, "command": self.command(plugin["command"])}
        return found

    def command(self, given: str) -> str:
        """A bare name is looked up in PATH; a path is relative to the kubeconfig. In a pod neither is run."""
        return str(self.document.base.absolute() / given) if "/" in given and confinement.current() is None else given

    def material(self, field: str) -> Material | None:
        """`<field>-data` wins over the file `<field>`, as in client-go."""
        data = self.text(f"{field}-data")
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except (binascii.Error, ValueError) as error:
                raise self.error(f"{field}-data", "not valid base64") from error
        path = self.file(field)
        if path is not None and not path.is_file():
            raise self.error(field, f"{confinement.shown(path)}: no such file")
        return path


def _resolve(documents: Sequence[_Document], context: str) -> ClientConfig:
    entry, cluster, user = _find(documents, context)
    found = _config(cluster, entry.text("namespace"), _identity(user) if user else AuthInfo())
    return replace(found, cluster=cluster.name)


def _find(documents: Sequence[_Document], context: str) -> tuple[_Entry, _Entry, _Entry | None]:
    """A context, its cluster and its user. If several files define the same name, the first one is used, as in kubectl."""
    source = documents[0].source if len(documents) == 1 else os.pathsep.join(document.source for document in documents)
    current = next((d.content["current-context"] for d in documents if d.content.get("current-context")), "")
    chosen = context or current
    if not chosen:
        raise KubeconfigError(source, "", "current-context", "not set, and no context was given")

    def find(collection: str, kind: str, name: str, referrer: str) -> _Entry:
        for document in documents:
            found = document.entry(collection, kind, name)
            if found is not None:
                return found
        listed = [item for d in documents for item in d.content.get(collection) or ()]
        names = sorted(str(item["name"]) for item in listed if isinstance(item, dict) and "name" in item)
        raise KubeconfigError(source, referrer, kind, f"{name!r} does not exist; there are {', '.join(names) or 'none'}")

    entry = find("contexts", "context", str(chosen), "current-context" if not context else "")
    if not entry.text("cluster"):
        raise entry.error("cluster", "not set")
    cluster = find("clusters", "cluster", entry.text("cluster"), entry.where)
    user = find("users", "user", entry.text("user"), entry.where) if entry.text("user") else None
    return entry, cluster, user


def _config(cluster: _Entry, namespace: str, identity: AuthInfo) -> ClientConfig:
    server = cluster.text("server").rstrip("/")
    if not _leads_somewhere(server):
        raise cluster.error("server", "not set" if not server else f"{server!r} is not an http or https URL")
    ca, insecure = cluster.material("certificate-authority"), cluster.flag("insecure-skip-tls-verify")
    if insecure and ca is not None:
        raise cluster.error("insecure-skip-tls-verify", "may not be combined with a certificate authority")
    proxy = cluster.text("proxy-url")
    if proxy and not _leads_somewhere(proxy):
        raise cluster.error("proxy-url", "only http and https proxies are supported")
    extensions = {
        item["name"]: item.get("extension")
        for item in cluster.values.get("extensions") or ()
        if isinstance(item, dict) and "name" in item
    }
    return ClientConfig(server, ca, cluster.text("tls-server-name"), insecure, proxy, namespace, identity, extensions)


def _leads_somewhere(url: str) -> bool:
    """Whether it is an http or https URL with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        # An invalid port, or unbalanced brackets.
        return False


def _identity(user: _Entry) -> AuthInfo:
    if "auth-provider" in user.values:
        raise user.error("auth-provider", "was removed from Kubernetes; use exec")
    cert, key = user.material("client-certificate"), user.material("client-key")
    if (cert is None) != (key is None):
        missing = "client-certificate" if cert is None else "client-key"
        raise user.error(missing, "client-certificate and client-key must be given together")
    plugin = user.values.get("exec")
    if not isinstance(plugin, dict | None):
        raise user.error("exec", "must be a map")
    return AuthInfo(
        cert,
        key,
        user.text("token"),
        user.file("tokenFile"),
        user.text("username"),
        user.text("password"),
        _plugin(_Entry(user.document, f"{user.where}: exec", plugin)) if plugin else None,
        _impersonation(user),
    )


def _plugin(entry: _Entry) -> ExecPlugin:
    command, version = entry.text("command"), entry.text("apiVersion")
    if not command:
        raise entry.error("command", "not set")
    if version not in EXEC_VERSIONS:
        raise entry.error("apiVersion", f"{version!r} is not supported; expected {' or '.join(EXEC_VERSIONS)}")
    if entry.text("interactiveMode") == "Always":
        raise entry.error("interactiveMode", "a controller has no terminal to offer")
    env = {}
    for item in entry.values.get("env") or ():
        if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not isinstance(item.get("value"), str):
            raise entry.error("env", "must be a list of name and value")
        env[item["name"]] = item["value"]
    located = entry.command(command)
    return ExecPlugin(located, entry.texts("args"), env, version, entry.flag("provideClusterInfo"), entry.text("installHint"))


def _impersonation(user: _Entry) -> tuple[tuple[str, str], ...]:
    headers = []
    if user.text("as"):
        headers.append(("Impersonate-User", user.text("as")))
    if user.text("as-uid"):
        headers.append(("Impersonate-Uid", user.text("as-uid")))
    headers += [("Impersonate-Group", group) for group in user.texts("as-groups")]
    extra = user.values.get("as-user-extra")
    if not isinstance(extra, dict | None):
        raise user.error("as-user-extra", "must be a map")
    for name in extra or {}:
        values = _Entry(user.document, f"{user.where}: as-user-extra", extra or {}).texts(name)
        headers += [(f"Impersonate-Extra-{quote(str(name), safe=_HEADER_SAFE)}", value) for value in values]
    if headers and not user.text("as"):
        raise user.error("as", "must be set when groups, uid or extra are impersonated")
    return tuple(headers)
