"""A page's attributes in component mode: a non-resource request on the page's path.

The verb is the lower-cased method, as Kubernetes' own components send it, with HEAD as `get`: who
may read a page may ask for its head. The proxy's own verbs (`create`, `*` ...) are another table.
"""

from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.http1.head import RequestHead
from pyrbacproxy.http1.target import Target, has_encoded_separator
from pyrbacproxy.reviews import NonResourceAttributes
from pyrbacproxy.user import UserInfo


def page_attributes(head: RequestHead, target: Target, user: UserInfo) -> Attributes:
    """What must be allowed for this page."""
    verb = "get" if head.method == b"HEAD" else head.method.decode("latin-1").lower()
    is_exact = not has_encoded_separator(target.raw_path)
    return Attributes(user, NonResourceAttributes(verb, target.path), is_exact)
