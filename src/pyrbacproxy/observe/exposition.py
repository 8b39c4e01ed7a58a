"""The text of `/metrics` in the form that the scraper asks for, by prometheus-client.

Importing this costs about 3 MiB and 50 ms, so only who is asked for the page imports it.
"""

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from pyrbacproxy.observe.families import Families
from pyrbacproxy.observe.gauges import Gauges
from pyrbacproxy.observe.metrics import Metrics

# The library compares any other as numbers, raises where it is none, and echoes it.
_VERSIONS = frozenset(("0.0.1", "0.0.4", "1.0.0"))
_ZERO = re.compile(r"0(\.0*)?")


@dataclass(frozen=True, slots=True)
class Exposition:
    """A body with what its header lines say; `content_coding` is "" or "gzip"."""

    body: bytes
    content_type: str
    content_coding: str


def exposition(
    metrics: Metrics, gauges: Gauges, *, accept: str, accept_encoding: str
) -> Exposition:
    """The page as Prometheus' own handler negotiates it: OpenMetrics or text, packed if wished."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(metrics, gauges))
    encode, content_type = choose_encoder(_understood(accept))
    body = encode(registry)
    if not _takes_gzip(accept_encoding):
        return Exposition(body, content_type, "")
    return Exposition(gzip.compress(body, compresslevel=6, mtime=0), content_type, "gzip")


def _understood(accept: str) -> str:
    """The entries of an Accept header that name no version, or one that there is."""
    return ",".join(entry for entry in accept.split(",") if _VERSIONS.issuperset(_versions(entry)))


def _versions(entry: str) -> Iterator[str]:
    for parameter in entry.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name == "version" and value:
            yield value


def _takes_gzip(accept_encoding: str) -> bool:
    """Whether gzip is named and not weighed with zero (RFC 9110 §12.5.3)."""
    for entry in accept_encoding.lower().split(","):
        coding, _, parameters = entry.partition(";")
        if coding.strip() == "gzip":
            _, _, weight = parameters.partition("q=")
            return not _ZERO.fullmatch(weight.strip())
    return False
