"""Kubernetes label selectors, as aggregated ClusterRoles use them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Operator(Enum):
    """`LabelSelectorRequirement.operator`, by its text in YAML."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One entry of `matchExpressions`. An absent label fulfils NotIn and DoesNotExist."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels fulfil it."""
        if self.operator is Operator.EXISTS:
            return self.key in labels
        if self.operator is Operator.DOES_NOT_EXIST:
            return self.key not in labels
        is_among = labels.get(self.key) in self.values
        return is_among if self.operator is Operator.IN else not is_among


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All labels and all requirements must match; an empty selector matches everything."""

    labels: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return self.labels.items() <= labels.items() and all(
            requirement.matches(labels) for requirement in self.requirements
        )
