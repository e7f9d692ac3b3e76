"""Servers on hosts: an S3 API, and Postgres."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from pathlib import PurePosixPath

import psycopg

from tests.support.hosts.host import Host, HostProcess
from tests.support.postgres import find_binaries
from tests.support.s3 import s3_request
from tests.support.waiting import eventually

S3_PORT = 5000
POSTGRES_PORT = 5432
START_SECONDS = 120.0
# Any will do for the server; without some the client refuses to ask.
S3_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


class S3Api:
    """moto's S3 API. It keeps its objects in memory: they die with its process."""

    def __init__(self, host: Host, *, bucket: str = "bucket") -> None:
        self.host = host
        self.bucket = bucket
        self.endpoint = f"http://{host.address}:{S3_PORT}"
        # What programs on other hosts need to reach it.
        self.environment = {"AWS_ENDPOINT_URL": self.endpoint, **S3_CREDENTIALS}
        self.process = host.start(
            [sys.executable, "-m", "moto.server", "-H", host.address, "-p", str(S3_PORT)],
            log="s3.log",
        )
        self._forwarded = f"http://{host.forward(S3_PORT)}"
        assert eventually(lambda: answers(self._forwarded), START_SECONDS), self.process.log()
        s3_request("PUT", f"{self._forwarded}/{bucket}")

    def url(self, prefix: str) -> str:
        """Return the URL of a folder for programs on hosts that have its environment."""
        return f"s3://{self.bucket}/{prefix}"

    def url_outside(self, prefix: str) -> str:
        """Return the URL of the same folder for the test itself."""
        key, secret = S3_CREDENTIALS.values()
        options = f"endpoint={self._forwarded}&access_key_id={key}&secret_access_key={secret}"
        return f"{self.url(prefix)}?{options}"


class PostgresOnHost:
    """A Postgres server; `url` is that of an empty database, for programs on any host."""

    FOLDER = "/var/tmp/postgres"

    def __init__(self, host: Host) -> None:
        binaries = find_binaries()
        if binaries is None:
            raise RuntimeError("no Postgres server is installed here: run `make servers`")
        self.host = host
        self._binaries = PurePosixPath(binaries)
        self.url = f"postgresql://tester@{host.address}:{POSTGRES_PORT}/postgres"
        # The same database for the test itself.
        self.url_outside = f"postgresql://tester@{host.forward(POSTGRES_PORT)}/postgres"
        host.run("install", "--directory", "--owner=nobody", "--mode=700", self.FOLDER)
        initdb = ("-D", f"{self.FOLDER}/data", "-U", "tester", "-A", "trust", "--no-sync")
        host.run(*self._as_nobody("initdb"), *initdb)
        host.outside(f"{self.FOLDER}/data/pg_hba.conf").write_text("host all all samenet trust\n")
        self.process = self.start()

    def start(self) -> HostProcess:
        """Start the server; again, if it or its host was killed."""
        self.process = self.host.start(
            [
                *(*self._as_nobody("postgres"), "-D", f"{self.FOLDER}/data"),
                *("-p", str(POSTGRES_PORT), "-k", self.FOLDER),
                *("-c", f"listen_addresses={self.host.address}", "-c", "fsync=off"),
            ],
            log="postgres.log",
        )
        assert eventually(self._answers, START_SECONDS), self.process.log()
        return self.process

    def _as_nobody(self, program: str) -> list[str]:
        # Postgres refuses to be root.
        unprivileged = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        return [*unprivileged, str(self._binaries / program)]

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url_outside, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


def answers(url: str) -> bool:
    """Whether a server answers there, whatever it says."""
    try:
        with urllib.request.urlopen(url, timeout=10):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
