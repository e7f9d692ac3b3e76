"""The machine a benchmark ran on, as far as it explains the figures."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("pyspark", "pyarrow", "numpy", "headgate")


def load_average() -> float:
    """Return how many processes wanted to run during the last minute."""
    return os.getloadavg()[0]


def folder_size(folder: Path) -> tuple[int, int]:
    """Return (bytes, files) below a folder. Checksum companions (.crc) are not counted."""
    total = count = 0
    for path, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(".crc"):
                total += os.stat(os.path.join(path, name)).st_size
                count += 1
    return total, count


def describe() -> dict[str, str]:
    """Return processor, cores, memory and versions, for the page of figures."""
    facts = {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{_memory_bytes() / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": _java(),
    }
    for package in PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _java() -> str:
    answer = subprocess.run(
        ["java", "-version"], capture_output=True, text=True, timeout=30, check=False
    )
    # It says so on its error stream.
    lines = answer.stderr.splitlines()
    return lines[0] if lines else "unknown"
