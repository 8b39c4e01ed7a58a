"""Facts about certificates → outcomes: whole, in time, and the one that the listener shows."""

from collections.abc import Iterator

from pyrbacproxy.node.facts import Answer, Certificate, CertificateFile, NodeFacts, NotSeen
from pyrbacproxy.node.findings import Finding, Outcome, Passed, Severity, Unseen

_DAY_SECONDS = 86400.0
# The kubelet renews its own long before (at 70 to 90 % of the lifetime).
_LEAST_LEFT = 0.1


def serving_pair(facts: NodeFacts) -> Iterator[Outcome]:
    """The kubelet's serving pair is whole and in time, and is what the listener shows."""
    check, file = "serving-certificate", facts.serving
    if isinstance(file, NotSeen):
        yield Unseen(check, file.why)
        return
    to_do = "`oc get csr`: approve the node's kubelet-serving request, or see the kubelet's log"
    why = "the proxy serves with it and waits, or goes on with the one before, without it"
    if file.problem or not file.has_key:
        what = f"{file.path} {file.problem or 'holds no key'}"
        yield Finding(check, Severity.ERROR, what, why, to_do)
        return
    leaf = file.certificates[0]
    if trouble := _trouble(leaf, facts.now):
        yield Finding(check, *trouble, "clients refuse it once its time is over", to_do)
    else:
        yield Passed(check, _ages(leaf, facts.now))
    yield from _shown(facts, leaf)


def client_ca(facts: NodeFacts) -> Iterator[Outcome]:
    """Of each authority in the client CA at least one certificate is in time."""
    check, file = "client-ca", facts.client_ca
    if isinstance(file, NotSeen):
        yield Unseen(check, file.why)
        return
    why = "client certificates of that authority are refused with 401, Prometheus' own among them"
    to_do = f"does the machine-config daemon still write {file.path}? See its log and `oc get mcp`"
    if file.problem:
        yield Finding(check, Severity.ERROR, f"{file.path} {file.problem}", why, to_do)
        return
    newest = _newest(file)
    troubled = [(one, found) for one in newest if (found := _trouble(one, facts.now))]
    for _, trouble in troubled:
        yield Finding(check, *trouble, why, to_do)
    if not troubled:
        first = min(newest, key=lambda one: one.not_after)
        yield Passed(check, f"authorities: {len(newest)}; first to end: {_ages(first, facts.now)}")


def _shown(facts: NodeFacts, leaf: Certificate) -> Iterator[Outcome]:
    check, answer = "served-certificate", facts.anonymous
    if not isinstance(answer, Answer):
        yield Unseen(check, f"the listener showed none: {answer.why}")
    elif answer.fingerprint == leaf.fingerprint:
        yield Passed(check, "the listener shows the one on disk")
    else:
        yield Finding(
            check,
            Severity.WARNING,
            "the listener shows another certificate than the one on disk",
            "it did not take the kubelet's new one, or it is somebody else",
            "ask again after --tls-reload-interval (1m); then see who listens, and its log",
        )


def _newest(file: CertificateFile) -> list[Certificate]:
    """The last to end of each authority; a signer's name ends in `@` and when it was made."""
    found: dict[str, Certificate] = {}
    for one in file.certificates:
        name = one.subject.partition("@")[0]
        if name not in found or one.not_after > found[name].not_after:
            found[name] = one
    return list(found.values())


def _trouble(certificate: Certificate, now: float) -> tuple[Severity, str] | None:
    """What is wrong with its time, if anything."""
    ages = _ages(certificate, now)
    if not certificate.not_before <= now <= certificate.not_after:
        return Severity.ERROR, ages
    lifetime = certificate.not_after - certificate.not_before
    if certificate.not_after - now < lifetime * _LEAST_LEFT:
        return Severity.WARNING, ages
    return None


def _ages(certificate: Certificate, now: float) -> str:
    begun, left = now - certificate.not_before, certificate.not_after - now
    age = f"{_days(begun)} old" if begun >= 0 else f"valid only in {_days(-begun)}"
    end = f"ends in {_days(left)}" if left >= 0 else f"expired {_days(-left)} ago"
    return f"{certificate.subject}: {age}, {end}"


def _days(seconds: float) -> str:
    return f"{seconds / _DAY_SECONDS:.1f} d"
