"""Kills at random moments, many of them, on one service: `python -m tests.faults.soak --kills 50`.

The moments and the victims come from one seed, which is printed. At the end the output must be
exact, `headgate doctor` must find nothing, and no process and no scratch file may be left.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.counting import counting, finish
from tests.support.stand import Stand

VICTIMS = ("worker", "jvm", "python worker", "controller", "controller and worker")
# Rows for so many kills that micro-batches of a thousand do not come to their end.
ROWS_PER_KILL = 400_000
ROWS_MIN = 4_000_000
# Of the kills, so many come without waiting for the recovery from the one before.
IMPATIENT = 0.3
PAUSE_SECONDS_MAX = 3.0


@dataclass
class Soak:
    """One service that is killed again and again."""

    stand: Stand
    seed: int
    say: Callable[[str], None]
    killed: Counter[str] = field(default_factory=Counter)
    # Seconds from a kill to the next published epoch, where that was waited for.
    back: dict[str, list[float]] = field(default_factory=dict)

    def run(self, victims: list[str]) -> None:
        chance = random.Random(self.seed)
        for number, victim in enumerate(victims, 1):
            time.sleep(chance.uniform(0, PAUSE_SECONDS_MAX))
            self.kill(victim, chance)
            impatient = chance.random() < IMPATIENT
            began = time.monotonic()
            if impatient:
                self.stand.revive()
                self.say(f"{number}/{len(victims)} {victim}: not waited for")
                continue
            self.stand.wait_for_commits()
            seconds = time.monotonic() - began
            self.back.setdefault(victim, []).append(seconds)
            view = self.stand.view()
            self.say(
                f"{number}/{len(victims)} {victim}: generation {view['generation']}, "
                f"epoch {view['committed_epoch']} after {seconds:.1f} s"
            )

    def kill(self, victim: str, chance: random.Random) -> None:
        """Wait until there is such a process, and kill it."""
        stand = self.stand
        find = {
            "worker": stand.workers,
            "jvm": stand.jvms,
            "python worker": stand.python_workers,
            "controller": lambda: [stand.process.pid],
            "controller and worker": stand.workers,
        }[victim]
        stand.wait(f"a {victim} to kill", lambda: bool(find()))
        doomed = [chance.choice(find() or [stand.process.pid])]
        if victim == "controller and worker":
            doomed.append(stand.process.pid)
        for pid in doomed:
            # What was chosen may have ended by itself in the meantime.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.killed[victim] += 1

    def summary(self) -> str:
        lines = [f"seed {self.seed}: {self.killed.total()} kills, output exact, nothing left"]
        for victim, count in self.killed.most_common():
            times = sorted(self.back.get(victim, []))
            shown = (
                f"back after {times[len(times) // 2]:.1f} s (median), {times[-1]:.1f} s (longest)"
                if times
                else "never waited for"
            )
            lines.append(f"  {victim:22} {count:4} kills, {shown}")
        lines.append(f"  the service was started again {self.stand.deaths} times")
        return "\n".join(lines)


def soak(folder: Path, victims: list[str], *, seed: int, say: Callable[[str], None]) -> Soak:
    """Kill the victims one after the other; raises `AssertionError` where it shows."""
    rows = max(ROWS_MIN, ROWS_PER_KILL * len(victims))
    stand = counting(folder, rows=rows)
    try:
        stand.wait_for_commits()
        running = Soak(stand, seed, say)
        running.run(victims)
        finish(stand, rows)
        return running
    finally:
        stand.close(signal.SIGKILL)


def choose_victims(kills: int, seed: int) -> list[str]:
    """Return each victim equally often, in any order."""
    victims = [VICTIMS[i % len(VICTIMS)] for i in range(kills)]
    random.Random(seed).shuffle(victims)
    return victims


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if arguments.seed is None else arguments.seed
    folder = Path(tempfile.mkdtemp(prefix="headgate-soak-"))
    print(f"seed {seed}, in {folder}", flush=True)

    def say(line: str) -> None:
        print(line, flush=True)

    done = soak(folder, choose_victims(arguments.kills, seed), seed=seed, say=say)
    print(done.summary())
    # What failed is kept, to be looked at.
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
