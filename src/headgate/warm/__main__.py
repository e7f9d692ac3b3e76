"""`python -m headgate.warm --socket FD`: see host.py."""

from __future__ import annotations

import argparse
import sys

from headgate.warm.host import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="headgate-warm", description=__doc__)
    parser.add_argument("--socket", type=int, required=True, help="the connection's descriptor")
    sys.exit(main(parser.parse_args().socket))
