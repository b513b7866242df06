"""The routes of the console, which the server of a gateway adds to its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import ToolscoutError
from ..gateway.gateway import Gateway
from ..gateway.identity.page_callers import PageCallers
from .guard import ConsoleGuard, RefusedVisitError, ask_for_login
from .html import tag
from .navigation import PAGES
from .notices import Notices
from .page import ROOT, ConsolePage, ConsoleRoute
from .static_files import STATIC_PATH, get_static_file
from .visit import LoginNeededError, Visit

_LINKS = tuple((page.title, f"{ROOT}{page.path}") for page in PAGES)


def build_routes(gateway: Gateway, callers: PageCallers) -> list[Route]:
    """Every address of the console."""
    console = _Console(gateway, callers)
    routes = [Route(f"{STATIC_PATH}/{{name}}", get_static_file, methods=["GET"])]
    for page in PAGES:
        for route in page.routes:
            endpoint = console.build_endpoint(page, route)
            path = f"{ROOT}{page.path}{route.path}"
            routes.append(Route(path, endpoint, methods=[route.method]))
    return routes


class _Console:
    """Turns requests into visits, and errors into pages."""

    def __init__(self, gateway: Gateway, callers: PageCallers) -> None:
        self._gateway = gateway
        self._guard = ConsoleGuard(gateway, callers)
        self._notices = Notices()

    def build_endpoint(
        self, page: ConsolePage, route: ConsoleRoute
    ) -> Callable[[Request], Awaitable[Response]]:
        """The function that Starlette calls for a route."""

        async def answer(request: Request) -> Response:
            try:
                visit = await self._admit(request, page)
                return await self._handle(visit, route)
            except RefusedVisitError as error:
                return error.response
            except LoginNeededError:
                return ask_for_login(request).response

        return answer

    async def _admit(self, request: Request, page: ConsolePage) -> Visit:
        identity = await self._guard.admit(request)
        is_post = request.method == "POST"
        form = await self._guard.read_form(request) if is_post else dict[str, str]()
        return Visit(
            gateway=self._gateway,
            request=request,
            identity=identity,
            csrf=self._guard.csrf_token(request),
            current=f"{ROOT}{page.path}",
            links=_LINKS,
            notices=self._notices,
            form=form,
        )

    async def _handle(self, visit: Visit, route: ConsoleRoute) -> Response:
        if route.needs_login:
            visit.require_login()
        try:
            return await route.handler(visit)
        except ToolscoutError as error:
            text = tag("p", {"class": "error", "role": "alert"}, error.message)
            hint = tag("p", None, error.hint) if error.hint else None
            if "hx-request" in visit.request.headers:
                return visit.show_part(text, hint)
            return visit.show("Not done", text, hint, status=HTTPStatus.BAD_REQUEST)
