"""The page of the API works without the internet, and in a browser that has no token yet."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from tests.unit.server.serving import Running, serving

TOKEN = "correct horse battery staple"
LINK = re.compile(r"""(?:src|href)=["']([^"']*)["']""")


def test_page_names_no_address_outside(running: Running) -> None:
    answer = running.client.get("/docs")
    assert answer.status_code == 200
    assert "//" not in answer.text.replace("// ", "")
    links = LINK.findall(answer.text)
    assert {Path(link).suffix for link in links} == {".js", ".css", ".png"}
    for link in links:
        asset = running.client.get(link)
        assert asset.status_code == 200, link
        assert len(asset.content) > 500
    assert '"validatorUrl": null' in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")


def test_nothing_but_the_assets_is_served_beside_the_page(running: Running) -> None:
    for name in ("__init__.py", "../main.py", "..%2fmain.py"):
        assert running.client.get(f"/docs/assets/{name}").status_code in (404, 422)
    for path in ("/redoc", "/docs/oauth2-redirect"):
        assert running.client.get(path).status_code == 404


def test_page_is_shown_without_the_token_and_nothing_else_is(tmp_path: Path) -> None:
    with serving(tmp_path, token=TOKEN) as running, httpx.Client(base_url=running.url) as browser:
        page = browser.get("/docs")
        assert page.status_code == 200
        assert all(browser.get(link).status_code == 200 for link in LINK.findall(page.text))
        described = browser.get("/openapi.json").json()
        # This is what the page's button asks the token for.
        assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
        for path in ("/docs/", "/healthz", "/metrics", "/api/v1/jobs", "/openapi.json/x"):
            assert browser.get(path).status_code == 401, path
        assert TOKEN not in page.text
