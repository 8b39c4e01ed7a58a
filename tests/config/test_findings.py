from pyrbacproxy.config.findings import Findings


def test_problems_and_warnings_are_kept_apart_and_in_order() -> None:
    findings = Findings()
    findings.problem("a")
    findings.warn("b")
    findings.problem("c")
    assert findings == Findings(problems=["a", "c"], warnings=["b"])
