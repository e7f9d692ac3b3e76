"""Hosts that share nothing, on one machine: namespaces of the kernel, and cables between them.

    with Network() as network:
        store = S3Api(network.host("store"))
        cluster = StandaloneCluster(network.host("master"), [network.host("worker")])
        driver = network.host("driver")
        driver.put("/tmp/totals.sql", SQL)
        job = driver.headgate("run", "/tmp/totals.sql", "--master", cluster.url, ...)
        network.cut(store.host, driver)          # packets vanish, connections stall
        network.heal(store.host, driver)
        cluster.workers[0].host.kill()           # the power goes
        assert job.finish() == 0, job.story()
        assert driver.leftovers() == []

A host has its own network, processes, host name, `/tmp`, `/var/tmp`, home and `/dev/shm`; what is
installed (Java, Python, Headgate) it sees read-only, as far as it is told to (`software.py`). The
test itself is on no host: it looks into their folders (`Host.outside`), and reaches their servers
by `Host.forward`, a cable that no partition cuts.

Not shown by this bed: clocks that differ (all hosts have the kernel's), disks that fill up or
fail, and a machine's processors and memory, which all hosts share.

Read `network.py` first (links), then `host.py`; `servers.py` and `spark.py` are what runs on them.
"""

from tests.support.hosts.host import Host, HostProcess
from tests.support.hosts.network import Network
from tests.support.hosts.servers import PostgresOnHost, S3Api
from tests.support.hosts.spark import StandaloneCluster

__all__ = ["Host", "HostProcess", "Network", "PostgresOnHost", "S3Api", "StandaloneCluster"]
