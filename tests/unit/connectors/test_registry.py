"""Connectors of other packages: found by entry point, and clearly refused if they are not right."""

from __future__ import annotations

import zlib

import pytest

from headgate.connectors.builtin import BUILTIN
from headgate.connectors.descriptor import API_VERSION
from headgate.connectors.registry import connector, connectors, registered
from headgate.core.errors import UserError
from headgate.operators import SinkSpec, SourceSpec
from tests.support.packages import InstalledPackages

GOOD = """
from headgate.connectors.api import Connector, ConnectorOptions, SinkPart

class Options(ConnectorOptions):
    city: str

def open_sink(spec):
    import {needs}
    return ("opened", spec.options)

CONNECTOR = Connector(
    name="{name}", api_version={version}, sink=SinkPart(Options, open_sink, "at_least_once")
)
"""


def good(name: str, *, version: int = 1, needs: str = "json") -> str:
    return GOOD.format(name=name, version=version, needs=needs)


def test_a_connector_of_another_package_is_found_validated_and_opened(
    packages: InstalledPackages,
) -> None:
    packages.install("hg-pigeon", {"pigeon_a": good("pigeon")}, {"pigeon": "pigeon_a:CONNECTOR"})
    found = connector("pigeon")
    assert found.roles == {"sink"}
    options = found.validate("sink", {"connector": "pigeon", "city": "Ghent"}, ())
    assert options == {"city": "Ghent"}
    spec = SinkSpec(table="t", connector="pigeon", options=options)
    assert found.open_sink(spec) == ("opened", options)
    assert {"pigeon", "filesystem"} <= {c.name for c in connectors()}
    listed = {c.name: c.origin for c in registered()}
    assert (listed["pigeon"], listed["filesystem"]) == ("hg-pigeon 1.2", "headgate")
    with pytest.raises(UserError, match="cannot be a source: it is a sink"):
        found.open_source(SourceSpec(table="t", connector="pigeon", options={}, columns=()))


def test_an_unknown_connector_says_how_others_are_found(packages: InstalledPackages) -> None:
    packages.install("hg-pigeon", {"pigeon_b": good("pigeon")}, {"pigeon": "pigeon_b:CONNECTOR"})
    with pytest.raises(UserError) as caught:
        connector("kafkaesque")
    assert "the known ones are blackhole, filesystem" in caught.value.message
    assert "Did you mean `kafka`?" in caught.value.message
    assert "pigeon" in caught.value.message
    assert "once that package is installed" in caught.value.message


def test_two_packages_with_one_name_are_both_named(packages: InstalledPackages) -> None:
    packages.install("hg-one", {"pigeon_c": good("pigeon")}, {"pigeon": "pigeon_c:CONNECTOR"})
    packages.install("hg-two", {"pigeon_d": good("pigeon")}, {"pigeon": "pigeon_d:CONNECTOR"})
    with pytest.raises(UserError, match=r"is claimed by .*hg-.* and .*hg-") as caught:
        connector("pigeon")
    assert "hg-one 1.2 (pigeon_c:CONNECTOR)" in caught.value.message
    assert "hg-two 1.2 (pigeon_d:CONNECTOR)" in caught.value.message
    # Nobody else suffers.
    assert connector("filesystem").name == "filesystem"


def test_a_package_cannot_take_the_name_of_a_built_in_connector(
    packages: InstalledPackages,
) -> None:
    packages.install("hg-x", {"pigeon_e": good("stdout")}, {"stdout": "pigeon_e:CONNECTOR"})
    with pytest.raises(UserError, match=r"'stdout' is claimed by headgate .* and hg-x 1\.2"):
        connector("stdout")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("1 / 0", "'p' of hg-p 1.2 cannot be loaded from m:CONNECTOR: ZeroDivisionError"),
        ("OTHER = 1", "'p' of hg-p 1.2 cannot be loaded from m:CONNECTOR: AttributeError"),
        ("CONNECTOR = {}", "'p' of hg-p 1.2 is no connector: m:CONNECTOR is a dict"),
        ("import no_such_lib", "'p' of hg-p 1.2 needs the module 'no_such_lib', which is not inst"),
        (good("q"), "'p' of hg-p 1.2 calls itself 'q'"),
        (good("p", version=API_VERSION + 1), "written for version 2.*upgrade Headgate"),
        (good("p", version=API_VERSION - 1), "written for version 0.*upgrade hg-p 1.2"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_package_that_it_comes_from(
    packages: InstalledPackages, code: str, message: str
) -> None:
    # A module is imported once: each has a name of its own.
    module = f"broken_{zlib.crc32(code.encode())}"
    packages.install("hg-p", {module: code}, {"p": f"{module}:CONNECTOR"})
    with pytest.raises(UserError, match=message.replace("m:CONNECTOR", f"{module}:CONNECTOR")):
        connector("p")
    listed = {c.name: c for c in registered()}
    assert listed["p"].connector is None
    assert listed["p"].problem is not None
    assert listed["impulse"].connector is not None


def test_what_an_optional_part_needs_is_named_with_its_extra(packages: InstalledPackages) -> None:
    packages.install(
        "hg-pigeon", {"pigeon_f": "import no_such_lib"}, {"pigeon": "pigeon_f:CONNECTOR [loft]"}
    )
    with pytest.raises(UserError, match=r"pip install 'hg-pigeon\[loft\]'"):
        connector("pigeon")


def test_a_module_that_lacks_when_the_connector_is_opened_is_named(
    packages: InstalledPackages,
) -> None:
    code = good("pigeon", needs="no_such_client")
    packages.install("hg-pigeon", {"pigeon_g": code}, {"pigeon": "pigeon_g:CONNECTOR [loft]"})
    spec = SinkSpec(table="t", connector="pigeon", options={"city": "Ghent"})
    with pytest.raises(UserError, match=r"'no_such_client'.* pip install 'hg-pigeon\[loft\]'"):
        connector("pigeon").open_sink(spec)


def test_every_built_in_connector_loads() -> None:
    assert {point.name for point in BUILTIN} <= {c.name for c in connectors()}
