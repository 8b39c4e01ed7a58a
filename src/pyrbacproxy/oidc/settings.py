"""`OidcSettings`: whom an ID token must come from, and what its claims mean.

Apart from the rest of the package, so that a proxy without an issuer loads nothing else of it.
"""

from pyrbacproxy.egress import EgressProxies
from pyrbacproxy.values import Frozen, field

# What an issuer may sign with (reference 1.2): never a shared secret, never nothing.
ALGORITHMS = frozenset(
    family + size for family in ("RS", "ES", "PS") for size in ("256", "384", "512")
)


class OidcSettings(Frozen):
    """`issuer` is an https URL as its tokens and its discovery document spell it.

    `groups_claim` "" leaves users without groups. Both prefixes are put in front verbatim.
    `ca_file` "" means the system's roots.
    """

    issuer: str
    client_id: str
    username_claim: str = "email"
    groups_claim: str = "groups"
    username_prefix: str = ""
    groups_prefix: str = ""
    algorithms: frozenset[str] = frozenset({"RS256"})
    ca_file: str = ""
    proxies: EgressProxies = field(default_factory=EgressProxies)
