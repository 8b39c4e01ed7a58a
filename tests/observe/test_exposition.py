"""What a scraper asks for is what it gets."""

import gzip

import pytest

from pyrbacproxy.observe.exposition import Exposition, exposition
from tests.observe.test_families import GAUGES, busy

OPEN_METRICS = (
    "application/openmetrics-text;version=1.0.0;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def written(accept: str = "", accept_encoding: str = "") -> Exposition:
    return exposition(busy(), GAUGES, accept=accept, accept_encoding=accept_encoding)


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain;version=0.0.4", "text/html"])
def test_text_is_for_everybody(accept: str) -> None:
    shown = written(accept)
    assert shown.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert shown.body.startswith(b"# HELP kube_rbac_proxy_requests_total ")


@pytest.mark.parametrize("version", ["x", "1.x", "2.0.0", "9" * 5000, "1_0.0", "\xb2", "1=2"])
@pytest.mark.parametrize("media", ["application/openmetrics-text", "text/plain"])
def test_a_version_that_there_is_not_is_passed_over(media: str, version: str) -> None:
    asked = f"{media}; version={version};escaping=values"
    assert written(asked).content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert written(f"{asked},{OPEN_METRICS}").body.endswith(b"\n# EOF\n")


@pytest.mark.parametrize(
    "accept", ["application/openmetrics-text", "application/openmetrics-text;version="]
)
def test_open_metrics_without_a_version_is_the_first(accept: str) -> None:
    assert written(accept).content_type.startswith("application/openmetrics-text; version=1.0.0;")


def test_open_metrics_for_who_takes_it() -> None:
    shown = written(OPEN_METRICS)
    assert shown.content_type.startswith("application/openmetrics-text; version=1.0.0;")
    assert shown.body.endswith(b"\n# EOF\n")


@pytest.mark.parametrize(
    ("accept_encoding", "is_packed"),
    [
        ("", False),
        ("gzip", True),
        ("br, GZIP;q=0.8", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("deflate, br", False),
        ("*", False),
    ],
)
def test_it_is_packed_for_who_asks(accept_encoding: str, *, is_packed: bool) -> None:
    shown = written("", accept_encoding)
    assert shown.content_coding == ("gzip" if is_packed else "")
    body = gzip.decompress(shown.body) if is_packed else shown.body
    assert b"kube_rbac_proxy_requests_total" in body
