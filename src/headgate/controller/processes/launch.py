"""Becomes the worker: asks the kernel to be killed with its controller, then executes the command.

Run as a file, by path: `python launch.py CONTROLLER_PID COMMAND...`. It is a program of its own
because code between fork and exec is not safe in a process with threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    controller, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The controller may have died before the kernel was asked.
    if os.getppid() != controller:
        sys.exit("the controller is gone")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
