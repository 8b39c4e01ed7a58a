"""A page's attributes: what must be allowed for it, never what the proxy's configuration says.

Component mode asks for the path, as the API server's own components do, so that the built-in role
`system:monitoring` works. Node mode asks for subresources of the node, by the kubelet's table, in
order, and the first that is allowed suffices; non-resource rules do nothing there. HEAD is `get` in
both: who may read a page may ask for its head.
"""

from collections.abc import Callable
from typing import TypeAlias

from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.http1.head import RequestHead
from pyrbacproxy.http1.target import Target, has_encoded_separator
from pyrbacproxy.reviews import NonResourceAttributes, ResourceAttributes
from pyrbacproxy.user import UserInfo

PageAttributes: TypeAlias = Callable[[RequestHead, Target, UserInfo], tuple[Attributes, ...]]

# The kubelet's verbs; another method has an empty one, which only rules for "*" grant.
_NODE_VERBS = {
    b"GET": "get",
    b"HEAD": "get",
    b"POST": "create",
    b"PUT": "update",
    b"PATCH": "patch",
    b"DELETE": "delete",
}
_PROXY = ("proxy",)
# The kubelet's table (fine-grained authorization, locked on since Kubernetes 1.36), and below it
# what a kubelet doesn't serve: nobody shall need nodes/proxy, which includes exec, to read a page.
_SUBRESOURCES = {
    "/statusz": ("statusz",),
    "/flagz": ("configz",),
    "/configz": ("configz", "proxy"),
    "/healthz": ("healthz", "proxy"),
    "/pods": ("pods", "proxy"),
    "/runningpods": ("pods", "proxy"),
    "/metrics": ("metrics",),
    "/stats": ("stats",),
    "/logs": ("log",),
    "/checkpoint": ("checkpoint",),
    "/livez": ("healthz", "proxy"),
    "/readyz": ("healthz", "proxy"),
    "/version": ("statusz",),
}


def component_attributes(
    head: RequestHead, target: Target, user: UserInfo
) -> tuple[Attributes, ...]:
    """The lower-cased method on the path."""
    verb = "get" if head.method == b"HEAD" else head.method.decode("latin-1").lower()
    is_exact = not has_encoded_separator(target.raw_path)
    return (Attributes(user, NonResourceAttributes(verb, target.path), is_exact),)


def node_attributes(node_name: str) -> PageAttributes:
    """The kubelet's attributes on the node of that name."""

    def attributes(head: RequestHead, target: Target, user: UserInfo) -> tuple[Attributes, ...]:
        verb = _NODE_VERBS.get(head.method, "")
        return tuple(
            Attributes(
                user,
                ResourceAttributes(
                    verb, version="v1", resource="nodes", subresource=name, name=node_name
                ),
            )
            for name in _subresources(target.path)
        )

    return attributes


def _subresources(path: str) -> tuple[str, ...]:
    """What stands for a path: for the whole first segment only, and not for `//statusz`."""
    folder = "/" + path[1:].partition("/")[0] if path.startswith("/") else ""
    return _SUBRESOURCES.get(folder, _PROXY)
