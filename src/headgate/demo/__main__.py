"""Tells the story of the demo, and breaks things on the way."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.panel import Panel

from headgate.components import embedded_controller
from headgate.controller.controller import Controller
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.spec import JobSpec
from headgate.core.durations import format_duration
from headgate.core.ids import JobId
from headgate.demo.pipeline import EVENTS, sql_text
from headgate.demo.story import Story
from headgate.embedded.display import RunDisplay


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--folder", type=Path, default=Path(".demo"))
    arguments = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    root: Path = arguments.folder.absolute()
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    output = root / "auction_activity"
    sql = sql_text(arguments.events, str(output))
    (root / "demo.sql").write_text(sql)
    console.print(Panel(sql.strip(), title=f"the pipeline: {arguments.events:,} events"))
    begun = time.monotonic()
    story = Story()
    display = RunDisplay(console)
    controller = embedded_controller(str(root / "state"))
    try:
        controller.subscribe(display.show)
        controller.subscribe(story.take)
        controller.start(take_up=False)
        with display.running():
            job = controller.attach_job(_spec(sql, root))
            _break_things(console, controller, job, story, root)
            story.wait(lambda: False)
            status = controller.job_status(job)
    finally:
        controller.close()
    if status.state != "finished":
        console.print(f"[red]the pipeline {status.state}:[/] {status.doing}")
        return 1
    story.show_recoveries(console)
    exact = _verify(console, output, arguments.events)
    console.print(
        f"[dim]{format_duration((time.monotonic() - begun) * 1000)} in all; "
        f"checkpoints and output are in {root}[/]"
    )
    return 0 if exact else 1


def _spec(sql: str, root: Path) -> JobSpec:
    return JobSpec(
        name="demo",
        sql=sql,
        state_url=str(root / "state"),
        parallelism=2,
        limits=Limits(checkpoint_interval_ms=1_000, heartbeat_interval_ms=500),
        master="local[2,4]",
        # Small micro-batches, so that there is time to watch.
        max_batch_rows=50_000,
    )


def _break_things(
    console: Console, controller: Controller, job: JobId, story: Story, root: Path
) -> None:
    story.wait(lambda: story.checkpoints >= 3)
    _kill_worker(console, controller, job)
    story.wait(lambda: story.recoveries == 1 and story.state == "running")
    resumed_at = story.checkpoints
    story.wait(lambda: story.checkpoints >= resumed_at + 3)
    _kill_worker(console, controller, job, damage=root / "state" / job)
    story.wait(lambda: story.recoveries >= 2 and story.state == "running")


def _kill_worker(
    console: Console, controller: Controller, job: JobId, damage: Path | None = None
) -> None:
    pid = controller.worker_pid(job)
    if pid is None:
        return
    os.kill(pid, signal.SIGKILL)
    console.print(f"[bold red]✗ SIGKILL[/] to the worker (pid {pid}), its JVM goes with it")
    if damage is not None:
        _truncate_newest_run(console, damage)


def _truncate_newest_run(console: Console, job_folder: Path) -> None:
    """Damage the newest state file, as a full disk or a broken copy would."""
    runs = sorted(job_folder.glob("generations/*/runs/*/*/*.parquet"), key=os.path.getmtime)
    victim = runs[-1]
    os.truncate(victim, victim.stat().st_size // 2)
    console.print(f"[bold red]✗ cut in half[/] {victim.relative_to(job_folder)}")


def _verify(console: Console, output: Path, events: int) -> bool:
    console.print("computing the same windows as one Spark batch, and comparing...")
    command = [sys.executable, "-m", "headgate.demo.verify"]
    command += ["--output", str(output), "--events", str(events)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    if checked.returncode not in (0, 1) or not checked.stdout.strip():
        console.print(f"[red]the check itself failed:[/]\n{checked.stderr[-3000:]}")
        return False
    expected, published, missing, surplus = map(int, checked.stdout.split()[-4:])
    exact = checked.returncode == 0
    verdict = "[bold green]exact[/]" if exact else "[bold red]NOT exact[/]"
    console.print(
        f"batch: {expected:,} rows; published: {published:,} rows; "
        f"missing: {missing}; repeated or wrong: {surplus}: {verdict}"
    )
    return exact


if __name__ == "__main__":
    sys.exit(main())
