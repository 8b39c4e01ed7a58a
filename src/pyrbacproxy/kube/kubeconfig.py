"""How the API server is reached: settings, the resolved server, what is wrong with a kubeconfig.

Here nothing is called and nothing resolved: the file is read as YAML for the problems that can be
known without a call. Resolving it is kubernetes-asyncio's job, in a child process
(`kube.resolve_kubeconfig`).
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pyrbacproxy.egress import EgressProxies, ProxyAddress, proxy_at
from pyrbacproxy.kube import tls_context
from pyrbacproxy.kube.kubeconfig_file import (
    DocumentError,
    Fields,
    file_or_data,
    file_problems,
    named,
    read_document,
    token_file_problems,
)
from pyrbacproxy.regular_file import read_regular
from pyrbacproxy.values import Frozen, field

_LABEL_END = 64


class KubeSettings(Frozen):
    """How the API server is reached and how often.

    `kubeconfig` is a path, "" for the in-cluster service account (`server` is then its https URL
    and `service_account_folder` holds token and ca.crt). `qps` and `burst` are per API group when
    `is_rate_shared` is false (D14: 50/s, 100), one shared bucket otherwise. Times are seconds.
    `stale_seconds` is how long an answer may be used past its time, 0 for never (D15).
    """

    kubeconfig: str = ""
    server: str = ""
    service_account_folder: str = "/var/run/secrets/kubernetes.io/serviceaccount"
    qps: float = 50.0
    burst: int = 100
    is_rate_shared: bool = False
    token_seconds: float = 120.0
    authorized_seconds: float = 300.0
    unauthorized_seconds: float = 30.0
    stale_seconds: float = 0.0
    proxies: EgressProxies = field(default_factory=EgressProxies)


class ApiServer(Frozen):
    """Where the API server is and how we prove who we are: everything that a connection to it
    depends on.

    `url` has no slash at its end. `ca` holds PEM, "" for the system's roots; `certificate` and
    `key` are PEM, both or none. `authorization` is a whole header value ("Bearer ..."), "" without.
    `expires_at` (seconds since the epoch) is when the credential must be asked for anew, None when
    it does not say. `server_name` is whom the certificate must name, "" for the URL's host. `proxy`
    is the way to it, whatever the environment says; None leaves that to the environment.
    `impersonation` are headers that each request carries.
    """

    url: str
    ca: str = ""
    certificate: str = ""
    key: str = field(default="", repr=False)
    authorization: str = field(default="", repr=False)
    is_verified: bool = True
    expires_at: float | None = None
    server_name: str = ""
    proxy: ProxyAddress | None = None
    impersonation: tuple[tuple[str, str], ...] = ()


def in_cluster_server(environ: Mapping[str, str]) -> str | None:
    """The https URL that the kubelet's variables name, None outside a cluster."""
    host = environ.get("KUBERNETES_SERVICE_HOST")
    port = environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        return None
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def in_cluster_problems(server: str, folder: str) -> list[str]:
    """What is wrong with the URL out of the variables and the service account's two files; each
    text names the file.
    """
    token, ca = Path(folder, "token"), Path(folder, "ca.crt")
    about_server = [
        f"KUBERNETES_SERVICE_HOST and _PORT: {text}" for text in _server_problems(server)
    ]
    if not Path(folder).exists():
        why = "is automountServiceAccountToken false?"
        return [*about_server, f"the service account: {folder} is missing; {why}"]
    return [
        *about_server,
        *token_file_problems(token, "the service account's token"),
        *(file_problems(ca, "the service account's CA") or _judged(ca, tls_context.ca_problem)),
    ]


def problems(path: str) -> list[str]:
    """Everything wrong with the kubeconfig that can be known without a call; each text names file,
    key and value.

    Secrets are never quoted. What client-go has and we have not is a problem too: nothing is
    silently ignored.
    """
    try:
        document = read_document(read_regular(path))
    except OSError as error:
        return [f"kubeconfig {path}: cannot be read: {error.strerror}"]
    except DocumentError as error:
        return [f"kubeconfig {path}: {error}"]
    if not isinstance(document, dict):
        return [f"kubeconfig {path}: holds no mapping of keys and values"]
    return [
        f"kubeconfig {path}: {text}" for text in _document_problems(document, Path(path).parent)
    ]


def _document_problems(document: Fields, folder: Path) -> Iterator[str]:
    current = document.get("current-context")
    if not isinstance(current, str) or not current:
        yield "current-context: is not set"
        return
    context = named(document, "contexts", "context", current)
    if isinstance(context, str):
        yield f"current-context: {context}"
        return
    cluster_name, user_name = context.get("cluster"), context.get("user")
    cluster = named(document, "clusters", "cluster", cluster_name)
    if isinstance(cluster, str):
        yield f"contexts[{current}].cluster: {cluster}"
    else:
        place = f"clusters[{cluster_name}]"
        yield from (f"{place}.{text}" for text in _cluster_problems(cluster, folder))
    if user_name in (None, ""):
        return  # without credentials, as anonymous
    user = named(document, "users", "user", user_name)
    if isinstance(user, str):
        yield f"contexts[{current}].user: {user}"
    else:
        # Who has no kubeconfig needs no memory for what may stand in it.
        from pyrbacproxy.kube.kubeconfig_user import user_problems  # noqa: PLC0415

        yield from (f"users[{user_name}].{text}" for text in user_problems(user, folder))


def _cluster_problems(cluster: Fields, folder: Path) -> Iterator[str]:
    yield from _server_problems(cluster.get("server"))
    yield from _way_problems(cluster)
    skips = cluster.get("insecure-skip-tls-verify")
    if not isinstance(skips, bool | None):
        yield f"insecure-skip-tls-verify: {skips!r} is neither true nor false"
    elif skips and any(cluster.get(f"certificate-authority{end}") for end in ("", "-data")):
        yield "insecure-skip-tls-verify: contradicts certificate-authority"
    text, found = file_or_data(cluster, "certificate-authority", folder)
    yield from found
    if text and (problem := tls_context.ca_problem(text)):
        yield f"certificate-authority: {problem}"
    if not _are_extensions(cluster.get("extensions") or []):
        yield "extensions: is no list of entries with names"


def _are_extensions(extensions: object) -> bool:
    return isinstance(extensions, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("name", ""), str) for entry in extensions
    )


def _server_problems(server: object) -> Iterator[str]:
    """What is wrong with the API server's URL; what may be a password is not quoted."""
    if isinstance(server, str) and "@" in server:
        yield "server: credentials in the URL are not supported"
    elif not isinstance(server, str) or not server.lower().startswith(("https://", "http://")):
        yield f"server: {server!r} is no http:// or https:// URL"
    elif not _is_usable(server):
        yield f"server: {server!r} has no usable host and port"


def _is_usable(server: str) -> bool:
    # urlsplit takes line ends and tabs out, and what is left would be another server.
    if not server.isprintable():
        return False
    try:
        url = urlsplit(server)
        return _is_host(url.hostname or "") and url.port != 0
    except ValueError:
        return False


def _is_host(text: str) -> bool:
    """A name or an address; labels as DNS has them (RFC 1035 §2.3.4)."""
    labels = text.removesuffix(".").split(".")
    is_spelt = text.isprintable() and " " not in text
    return is_spelt and all(0 < len(label) < _LABEL_END for label in labels)


def _way_problems(cluster: Fields) -> Iterator[str]:
    name, proxy = cluster.get("tls-server-name"), cluster.get("proxy-url")
    if not isinstance(name, str | None) or (name and not (name.isascii() and _is_host(name))):
        yield "tls-server-name: is no name of a server"
    if not isinstance(proxy, str | None):
        yield "proxy-url: is no string"
    elif proxy:
        try:
            proxy_at(proxy)
        except ValueError as error:
            yield f"proxy-url: {error}"


def _judged(path: Path, judge: Callable[[str], str]) -> list[str]:
    problem = judge(read_regular(path).decode("latin-1"))
    return [f"{path}: {problem}"] if problem else []
