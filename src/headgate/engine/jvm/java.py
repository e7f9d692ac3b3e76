"""Whether there is a Java that Spark can run on, and what to do if there is none."""

from __future__ import annotations

import os
import re
import subprocess

OLDEST = 17
ANSWER_SECONDS = 30.0
_VERSION = re.compile(r'version "(\d+)')
_ADVICE = (
    "Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless; "
    "Fedora: sudo dnf install java-17-openjdk-headless; macOS: brew install openjdk@17. "
    "If it is installed elsewhere, set JAVA_HOME to its folder."
)


def java_problem() -> str | None:
    """Return what is wrong with the Java that Spark would use; None if nothing is."""
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else "java"
    try:
        answer = subprocess.run(
            [command, "-version"],
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except OSError:
        where = f"JAVA_HOME is {home}, where there is none" if home else "there is none here"
        return f"Spark needs Java {OLDEST} or newer, and {where}. {_ADVICE}"
    except subprocess.TimeoutExpired:
        return None
    version = _VERSION.search(answer.stderr + answer.stdout)
    if version is None or int(version[1]) >= OLDEST:
        return None
    return f"Spark needs Java {OLDEST} or newer, and {command} is version {version[1]}. {_ADVICE}"
