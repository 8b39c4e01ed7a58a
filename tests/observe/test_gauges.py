"""Values only; what becomes of them is tested where they are written (test_families.py)."""

import pytest

from pyrbacproxy.observe.gauges import Connections, Files


def test_what_was_looked_up_does_not_change() -> None:
    with pytest.raises(AttributeError):
        setattr(Connections(1, 2), "open", 3)  # noqa: B010 - the point
    assert Files(1, 0, is_bad=False) == Files(1, 0, is_bad=False)
