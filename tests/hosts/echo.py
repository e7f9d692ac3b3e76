"""Two programs for hosts, by path: one sends back every line, the other counts through it.

`echo.py serve ADDRESS PORT` and `echo.py count ADDRESS PORT`, which says each number as it
comes back over one connection, ten a second.
"""

from __future__ import annotations

import socket
import sys
import time


def serve(address: tuple[str, int]) -> None:
    with socket.create_server(address) as listener:
        print("listening", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb", buffering=0) as lines:
                for line in lines:
                    lines.write(line)


def count(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=10) as connection:
        connection.settimeout(None)
        with connection.makefile("rwb", buffering=0) as lines:
            for number in range(100_000):
                lines.write(f"{number}\n".encode())
                print(f"back: {int(lines.readline())}", flush=True)
                time.sleep(0.1)


if __name__ == "__main__":
    what, where, port = sys.argv[1:]
    {"serve": serve, "count": count}[what]((where, int(port)))
