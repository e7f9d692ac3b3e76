"""Packages outside the project that have connectors, installed for one test."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.connectors import registry


def write_package(
    folder: Path,
    name: str,
    *,
    modules: dict[str, str],
    entry_points: dict[str, str],
    version: str = "1.2",
) -> None:
    """Write what `pip install --target` would: modules, and a dist-info with entry points."""
    for module, code in modules.items():
        path = folder / f"{module.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = "".join(f"{key} = {value}\n" for key, value in entry_points.items())
    (info / "entry_points.txt").write_text(f"[headgate.connectors]\n{lines}")


class InstalledPackages:
    """Installs packages for one test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch

    def install(self, name: str, modules: dict[str, str], entry_points: dict[str, str]) -> None:
        folder = self._folder / name
        write_package(folder, name, modules=modules, entry_points=entry_points)
        self._monkeypatch.syspath_prepend(str(folder))
        registry.forget_installed()
