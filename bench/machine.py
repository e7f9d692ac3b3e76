"""The machine a benchmark ran on, as far as it explains the figures."""

from __future__ import annotations

import os
import platform
import subprocess
import threading
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("pyspark", "pyarrow", "numpy", "headgate")


def load_average() -> float:
    """Return how many processes wanted to run during the last minute."""
    return os.getloadavg()[0]


def tree_cpu() -> dict[int, float]:
    """Return the processor seconds of this process and each one below it, by process id.

    Unlike the clock they hardly depend on what else the machine is doing. The time of children
    that have ended counts as their parent's.
    """
    times: dict[int, float] = {}
    parents: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            text = Path(entry.path, "stat").read_text()
        except OSError:  # it ended while we looked
            continue
        # The name in parentheses may hold anything; what follows it is plain.
        fields = text.rpartition(")")[2].split()
        parents[int(entry.name)] = int(fields[1])
        ticks = sum(int(field) for field in fields[11:15])
        times[int(entry.name)] = ticks / os.sysconf("SC_CLK_TCK")
    tree = {os.getpid()}
    added = True
    while added:
        below = {pid for pid, parent in parents.items() if parent in tree}
        added = not below <= tree
        tree |= below
    return {pid: times[pid] for pid in tree if pid in times}


def cpu_seconds_of(process: int) -> float:
    """Return the processor seconds of one process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds() -> float:
    """Return the processor seconds of this process and everything below it."""
    return sum(tree_cpu().values())


class CpuSampler:
    """Notes the processor time of the tree twice a second, from `start` to `stop`."""

    INTERVAL_SECONDS = 0.5

    def __init__(self) -> None:
        self.samples: list[tuple[float, float]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu", daemon=True)
        self._began = 0.0
        self._spent = 0.0

    def start(self) -> None:
        self._began, self._spent = time.perf_counter(), tree_cpu_seconds()
        self._thread.start()

    def stop(self) -> list[tuple[float, float]]:
        """Return (seconds since the start, processor seconds since the start)."""
        self._stopped.set()
        self._thread.join()
        self._sample()
        return self.samples

    def _run(self) -> None:
        while not self._stopped.wait(self.INTERVAL_SECONDS):
            self._sample()

    def _sample(self) -> None:
        now = time.perf_counter() - self._began
        self.samples.append((now, tree_cpu_seconds() - self._spent))


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
