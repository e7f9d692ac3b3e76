"""The page that shows the API. Everything it needs comes from here: it works without the internet.

The page and the description of the API need no token, because a browser cannot send one with a
page that it opens, and both say no more than the source does. What the page asks for after that
needs the token: its "Authorize" button takes it.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response

PAGE = "/docs"
OPENAPI = "/openapi.json"
# The assets are those of Swagger UI, as this package has them.
_ASSETS = "fastapi_swagger.resources"
_KINDS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
# Whatever the scripts would load from elsewhere, the browser refuses.
_POLICY = "default-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"


def is_public(path: str) -> bool:
    """Whether a path says nothing that needs a token."""
    return path in (PAGE, OPENAPI) or path in {_path(name) for name in _KINDS}


def _path(name: str) -> str:
    return f"{PAGE}/assets/{name}"


def add_api_page(app: FastAPI) -> None:
    """Let the application show its API."""

    @app.get(PAGE, include_in_schema=False)
    def read_page() -> HTMLResponse:
        page = get_swagger_ui_html(
            openapi_url=OPENAPI,
            title=app.title,
            swagger_js_url=_path("swagger-ui-bundle.js"),
            swagger_css_url=_path("swagger-ui.css"),
            swagger_favicon_url=_path("favicon-32x32.png"),
            # Without this the page asks a service on the internet whether the description is valid.
            swagger_ui_parameters={"validatorUrl": None, "filter": True},
        )
        page.headers["Content-Security-Policy"] = _POLICY
        return page

    @app.get(_path("{name}"), include_in_schema=False)
    def read_asset(
        name: Literal["swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"],
    ) -> Response:
        content = files(_ASSETS).joinpath(name).read_bytes()
        kept = {"Cache-Control": "max-age=86400"}
        return Response(content, media_type=_KINDS[name], headers=kept)
