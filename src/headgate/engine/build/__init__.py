"""From graph to DataFrame: one file per kind of operator, dispatched by `build_frame`."""

from headgate.engine.build.frame import Builder, Frame

__all__ = ["Builder", "Frame"]
