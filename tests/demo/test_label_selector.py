"""Label selectors: what Kubernetes' documentation says of each operator."""

import pytest

from pyrbacproxy.demo.rbac import LabelSelector, Operator, Requirement

LABELS = {"tier": "node", "app": "crio"}

CASES = {
    "empty selects everything": (LabelSelector(), True),
    "label equal": (LabelSelector({"tier": "node"}), True),
    "label differs": (LabelSelector({"tier": "pod"}), False),
    "label absent": (LabelSelector({"zone": "a"}), False),
    "one of two labels differs": (LabelSelector({"tier": "node", "app": "x"}), False),
    "In, present": (LabelSelector({}, (Requirement("app", Operator.IN, ("a", "crio")),)), True),
    "In, other value": (LabelSelector({}, (Requirement("app", Operator.IN, ("a",)),)), False),
    "In, absent": (LabelSelector({}, (Requirement("zone", Operator.IN, ("a",)),)), False),
    "NotIn, other value": (LabelSelector({}, (Requirement("app", Operator.NOT_IN, ("a",)),)), True),
    "NotIn, that value": (
        LabelSelector({}, (Requirement("app", Operator.NOT_IN, ("crio",)),)),
        False,
    ),
    "NotIn, absent": (LabelSelector({}, (Requirement("zone", Operator.NOT_IN, ("a",)),)), True),
    "Exists": (LabelSelector({}, (Requirement("app", Operator.EXISTS),)), True),
    "Exists, absent": (LabelSelector({}, (Requirement("zone", Operator.EXISTS),)), False),
    "DoesNotExist": (LabelSelector({}, (Requirement("zone", Operator.DOES_NOT_EXIST),)), True),
    "DoesNotExist, present": (
        LabelSelector({}, (Requirement("app", Operator.DOES_NOT_EXIST),)),
        False,
    ),
    "labels match, requirement does not": (
        LabelSelector({"tier": "node"}, (Requirement("zone", Operator.EXISTS),)),
        False,
    ),
}


@pytest.mark.parametrize(("selector", "selects"), CASES.values(), ids=CASES.keys())
def test_selects(selector: LabelSelector, *, selects: bool) -> None:
    assert selector.matches(LABELS) is selects
