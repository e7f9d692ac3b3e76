"""The connectors that come with Headgate, registered as those of any other package are.

They are listed here and not among the package's own entry points, so that they are there in a
source tree that nobody has installed, and so that none of them can be missing.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint

# Every package that has connectors names them in this group.
GROUP = "headgate.connectors"

BUILTIN = tuple(
    EntryPoint(name=name, value=f"headgate.connectors.{name}.connector:CONNECTOR", group=GROUP)
    for name in (
        "blackhole",
        "filesystem",
        "impulse",
        "nexmark",
        "preview",
        "single_file",
        "stdout",
    )
)
