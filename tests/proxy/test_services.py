from pyrbacproxy.handler import Request, Verdict
from pyrbacproxy.model import Reviewed
from pyrbacproxy.proxy.exchange import Services
from tests.proxy.dialogue import World, forwarding_handler


class Pages:
    def handle(self, request: Request) -> Reviewed[Verdict]:
        return forwarding_handler(request)


def test_a_reload_changes_the_handler() -> None:
    services = World().services
    assert isinstance(services, Services)
    before = services.handler
    services.handler = Pages().handle
    assert services.handler is not before
