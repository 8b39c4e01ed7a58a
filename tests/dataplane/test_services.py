import pytest

from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.handler import Request, Verdict
from pyrbacproxy.reviews import Reviewed
from tests.dataplane.dialogue import World, forwarding_handler


class Pages:
    def handle(self, request: Request) -> Reviewed[Verdict]:
        return forwarding_handler(request)


def test_a_reload_changes_the_handler_and_nothing_else_can_be_added() -> None:
    services = World().services
    assert isinstance(services, Services)
    before = services.handler
    services.handler = Pages().handle
    assert services.handler is not before
    with pytest.raises(AttributeError):
        services.other = 1  # type: ignore[attr-defined] # that is what is tested
