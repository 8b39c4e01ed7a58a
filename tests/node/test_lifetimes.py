"""Certificates whole and broken, in time and out of it."""

import pytest

from pyrbacproxy.node.audit import client_ca_lifetime, serving_pair_lifetime
from pyrbacproxy.node.facts import Answer, Asked, CertificateFile, NoAnswer, NotSeen
from pyrbacproxy.values import replace
from tests.node.well import (
    BLIND,
    CLIENT_CA,
    DAY,
    LEAF,
    NOW,
    SERVING,
    SIGNER,
    WELL,
    told,
)

SAME = ("served-certificate", "ok", "the listener shows the one on disk")
NODE = "CN=system:node:worker-0"
LATE = replace(LEAF, not_before=NOW - 28 * DAY, not_after=NOW + 2 * DAY)
OVER = replace(LEAF, not_before=NOW - 30 * DAY, not_after=NOW - DAY)
EARLY = replace(LEAF, not_before=NOW + DAY)


@pytest.mark.parametrize(
    ("file", "status", "text"),
    [
        (SERVING, "ok", f"{NODE}: 3.0 d old, ends in 27.0 d"),
        (replace(SERVING, certificates=(LATE,)), "warning", f"{NODE}: 28.0 d old, ends in 2.0 d"),
        (replace(SERVING, certificates=(OVER,)), "error", f"{NODE}: 30.0 d old, expired 1.0 d ago"),
        (
            replace(SERVING, certificates=(EARLY, LEAF)),
            "error",
            f"{NODE}: valid only in 1.0 d, ends in 27.0 d",
        ),
    ],
)
def test_the_leaf_is_in_time(file: CertificateFile, status: str, text: str) -> None:
    found = told(list(serving_pair_lifetime(replace(WELL, serving=file))))
    assert found == [("serving-certificate", status, text), SAME]


@pytest.mark.parametrize(
    ("file", "status", "text"),
    [
        (BLIND, "not seen", "too dark"),
        (CertificateFile("/s.pem", problem="is not there"), "error", "/s.pem is not there"),
        (replace(SERVING, has_key=False), "error", "/serving.pem holds no key"),
    ],
)
def test_a_pair_that_is_not_whole(file: CertificateFile | NotSeen, status: str, text: str) -> None:
    found = told(list(serving_pair_lifetime(replace(WELL, serving=file))))
    assert found == [("serving-certificate", status, text)]


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (Answer(401, LEAF.fingerprint), "ok", SAME[2]),
        (
            Answer(401, "other"),
            "warning",
            "the listener shows another certificate than the one on disk",
        ),
        (NoAnswer("gone"), "not seen", "the listener showed none: gone"),
        (BLIND, "not seen", "the listener showed none: too dark"),
    ],
)
def test_the_listener_shows_the_one_on_disk(answer: Asked, status: str, text: str) -> None:
    (_, found) = told(list(serving_pair_lifetime(replace(WELL, anonymous=answer))))
    assert found == ("served-certificate", status, text)


NEXT = replace(SIGNER, subject="CN=signer@1799000000", not_after=NOW + 300 * DAY)
PAST = replace(SIGNER, subject="CN=signer@1700000000", not_after=NOW - DAY)
OTHER = replace(PAST, subject="CN=other")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (BLIND, [("not seen", "too dark")]),
        (CertificateFile("/ca", problem="is not there"), [("error", "/ca is not there")]),
        (
            CLIENT_CA,
            [
                (
                    "ok",
                    f"authorities: 1; first to end: {SIGNER.subject}: 90.0 d old, ends in 275.0 d",
                )
            ],
        ),
        (
            replace(CLIENT_CA, certificates=(SIGNER, NEXT, PAST)),
            [("ok", f"authorities: 1; first to end: {NEXT.subject}: 90.0 d old, ends in 300.0 d")],
        ),
        (
            replace(CLIENT_CA, certificates=(SIGNER, OTHER)),
            [("error", "CN=other: 90.0 d old, expired 1.0 d ago")],
        ),
    ],
)
def test_each_authority_has_one_in_time(
    file: CertificateFile | NotSeen, expected: list[tuple[str, str]]
) -> None:
    found = told(list(client_ca_lifetime(replace(WELL, client_ca=file))))
    assert found == [("client-ca", *one) for one in expected]
