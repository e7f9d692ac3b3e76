"""From graph to DataFrame: one file per kind of operator, dispatched by `build_frame`."""

from headgate.engine.build.builder import Builder
from headgate.engine.build.frame import Frame

__all__ = ["Builder", "Frame"]
