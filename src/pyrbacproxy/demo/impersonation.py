"""`Impersonate-` headers, as kube-apiserver reads them: who is meant, and what that takes."""

from collections.abc import Iterator
from urllib.parse import unquote

from multidict import CIMultiDictProxy

from pyrbacproxy.demo.tokens import with_authenticated
from pyrbacproxy.reviews import ResourceAttributes
from pyrbacproxy.user import UserInfo

_EXTRA = "impersonate-extra-"
_GROUP = "authentication.k8s.io"
_SERVICE_ACCOUNT = "system:serviceaccount:"


def impersonated(headers: CIMultiDictProxy[str]) -> UserInfo | None:
    """Whom the headers name, one of `system:authenticated`; None when they name nobody."""
    name = headers.get("Impersonate-User")
    if name is None:
        return None
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in _extra(headers):
        extra[key] = (*extra.get(key, ()), value)
    return with_authenticated(
        UserInfo(
            name,
            uid=headers.get("Impersonate-Uid", ""),
            groups=tuple(headers.getall("Impersonate-Group", ())),
            extra=tuple(extra.items()),
        )
    )


def impersonations(headers: CIMultiDictProxy[str]) -> Iterator[ResourceAttributes]:
    """What the caller must be allowed for that: each name, group and value by itself."""
    for name in headers.getall("Impersonate-User", ()):
        namespace, _, account = name.removeprefix(_SERVICE_ACCOUNT).partition(":")
        if name.startswith(_SERVICE_ACCOUNT):
            yield _permission("serviceaccounts", account, namespace=namespace)
        else:
            yield _permission("users", name)
    for group in headers.getall("Impersonate-Group", ()):
        yield _permission("groups", group)
    for uid in headers.getall("Impersonate-Uid", ()):
        yield _permission("uids", uid, group=_GROUP)
    for key, value in _extra(headers):
        yield _permission("userextras", value, group=_GROUP, subresource=key)


def _permission(
    resource: str, name: str, *, group: str = "", namespace: str = "", subresource: str = ""
) -> ResourceAttributes:
    return ResourceAttributes(
        "impersonate", namespace, group, "v1", resource, subresource=subresource, name=name
    )


def _extra(headers: CIMultiDictProxy[str]) -> Iterator[tuple[str, str]]:
    """Keys in lower case and unescaped, as Go's header names arrive at the server."""
    for name, value in headers.items():
        if name.lower().startswith(_EXTRA):
            yield unquote(name.lower().removeprefix(_EXTRA)), value
