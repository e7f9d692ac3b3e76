"""`headgate package`: Headgate and the libraries that its tasks import, as one archive for Spark.

What is installed here is copied, file by file, as the distributions themselves list it: nothing is
fetched and nothing is built. The archive has no interpreter: executors need a Python of the same
version, on the same kind of machine. PySpark is not in it either: it comes with the cluster's own
Spark, which must be the driver's version.
"""

from __future__ import annotations

import gzip
import io
import platform
import re
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from pathlib import Path, PurePosixPath

import headgate
from headgate.connectors.builtin import GROUP
from headgate.core.errors import UserError
from headgate.core.model import from_json, model, to_json
from headgate.engine.executors.facts import TASK_MODULES, own_digest
from headgate.engine.executors.shipping import LIBRARIES

MANIFEST = "headgate-package.json"
OWN = "headgate"
# Comes with Spark.
_NOT_SHIPPED = frozenset({"pyspark", "py4j"})
# What the connectors of Headgate need is shipped if it is installed here.
_EXTRAS = ("confluent-kafka", "psycopg", "psycopg-binary")

# What only developers need, and a server of Arrow Flight that nothing else of PyArrow links to: a
# third of these libraries. Of others everything is taken.
_TRIMMED = frozenset({"pyarrow", "numpy", "pandas"})
_TRIMMED_FOLDERS = frozenset({"tests", "include", "src"})
_TRIMMED_NAMES = re.compile(
    r"(libarrow_flight|libarrow_python_flight|_flight)\b.*"
    r"|.*\.(pxd|pyx|pxi|h|hpp|c|cc|cpp|a)"
)
_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
# Twice as fast as the default, for a twentieth more bytes.
_COMPRESSION = 3


@model
class PackageManifest:
    """What an archive is for. Its first file."""

    python: str
    platform: str
    headgate: str
    digest: str
    libraries: dict[str, str]


@dataclass(frozen=True)
class Packed:
    """One library in the archive."""

    name: str
    version: str
    files: int
    bytes: int


@dataclass(frozen=True)
class PackageReport:
    file: Path
    bytes: int
    seconds: float
    libraries: tuple[Packed, ...]


def make_package(
    file: Path, include: Iterable[str] = (), tell: Callable[[Packed], None] = lambda packed: None
) -> PackageReport:
    """Write the archive; `include` are further distributions, for the user's functions."""
    begun = time.perf_counter()
    shipped = shipped_distributions(include)
    part = file.with_name(f".{file.name}.part")
    packed = []
    try:
        with (
            part.open("wb") as raw,
            gzip.GzipFile("", "wb", _COMPRESSION, raw, mtime=0) as packing,
            tarfile.open(fileobj=packing, mode="w") as archive,
        ):
            versions = {name: found.version for name, found in sorted(shipped.items())}
            manifest = to_json(_manifest(versions), indent=2)
            archive.addfile(_entry(MANIFEST, len(manifest)), io.BytesIO(manifest))
            for name, found in sorted(shipped.items()):
                packed.append(_add(archive, name, found))
                tell(packed[-1])
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UserError(
            f"cannot write the package '{file}': {error.strerror}", code="package"
        ) from error
    size = file.stat().st_size
    return PackageReport(file, size, time.perf_counter() - begun, tuple(packed))


def read_manifest(file: Path) -> PackageManifest:
    """Return what an archive says of itself. Raises `UserError` if it is none of ours."""
    try:
        with tarfile.open(file, "r|gz") as archive:
            first = archive.next()
            text = archive.extractfile(first) if first is not None else None
            if first is None or first.name != MANIFEST or text is None:
                raise ValueError("its first file is no manifest")
            manifest: PackageManifest = from_json(PackageManifest, text.read())
            return manifest
    except FileNotFoundError as error:
        raise UserError(
            f"there is no package '{file}': make it with `headgate package -o {file}`",
            code="package",
        ) from error
    except (OSError, tarfile.TarError, ValueError) as error:
        raise UserError(
            f"'{file}' is no package of Headgate ({error}): make one with `headgate package`",
            code="package",
        ) from error


def check_package(file: Path) -> PackageManifest:
    """Refuse an archive that was made by another Headgate or Python than the one that runs."""
    manifest = read_manifest(file)
    own = _manifest({})
    for what, made_by, here in (
        ("Python", manifest.python, own.python),
        ("machine", manifest.platform, own.platform),
        ("copy of Headgate", manifest.digest, own.digest),
    ):
        if made_by != here:
            raise UserError(
                f"the package '{file}' was made with another {what} ({made_by}) than this one "
                f"({here}): make it again with `headgate package -o {file}`",
                code="package",
            )
    return manifest


def _manifest(libraries: dict[str, str]) -> PackageManifest:
    return PackageManifest(
        python=f"{sys.version_info[0]}.{sys.version_info[1]}",
        platform=f"{platform.system()} {platform.machine()}",
        headgate=headgate.__version__,
        digest=own_digest(),
        libraries=libraries,
    )


# ---- which distributions ---------------------------------------------------------------------


def shipped_distributions(include: Iterable[str] = ()) -> dict[str, Distribution]:
    """Return the distributions that tasks need, by their normalized names, with what they need."""
    found: dict[str, Distribution] = {}
    waiting = [(name, True) for name in (OWN, *TASK_MODULES, *include)]
    waiting += [(name, False) for name in (*_EXTRAS, *_connector_packages())]
    while waiting:
        name, required = waiting.pop()
        key = _normalized(name)
        if key in found or key in _NOT_SHIPPED:
            continue
        try:
            found[key] = distribution(name)
        except PackageNotFoundError as error:
            if required:
                raise UserError(
                    f"cannot package '{name}': it is not installed here", code="package"
                ) from error
            # Needed elsewhere: another Python, another system.
            continue
        if key != OWN:
            # Of Headgate's own requirements tasks need those that are named above.
            waiting += [(needed, False) for needed in _requirements(found[key])]
    return found


def _connector_packages() -> list[str]:
    points = entry_points(group=GROUP)
    return [point.dist.name for point in points if point.dist is not None]


def _requirements(found: Distribution) -> Iterator[str]:
    for requirement in found.requires or ():
        wanted, _, condition = requirement.partition(";")
        name = _REQUIREMENT.match(wanted)
        # What another condition excludes is not installed, or does no harm.
        if name is not None and "extra" not in condition:
            yield name[1]


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# ---- which files -----------------------------------------------------------------------------


def _add(archive: tarfile.TarFile, name: str, found: Distribution) -> Packed:
    files = size = 0
    for path, place in sorted(files_of(name, found).items()):
        stat = place.stat()
        with place.open("rb") as content:
            archive.addfile(_entry(f"{LIBRARIES}/{path}", stat.st_size, stat.st_mode), content)
        files, size = files + 1, size + stat.st_size
    return Packed(name, found.version, files, size)


def files_of(name: str, found: Distribution) -> dict[str, Path]:
    """Return the files of a distribution that are shipped: path in the archive -> file here."""
    listed: dict[str, Path] = {}
    for file in found.files or ():
        path, place = PurePosixPath(file), Path(str(found.locate_file(file)))
        if _is_shipped(name, path) and place.is_file():
            listed[str(path)] = place
    modules = [p for p in listed if ".dist-info/" not in p and not p.endswith(".pth")]
    if not modules:
        # Installed for development: its files are where they are written.
        listed = {p: place for p, place in listed.items() if ".dist-info/" in p}
        for module in _modules_of(name, found):
            listed |= _tree_of(module)
    return listed


def _is_shipped(name: str, path: PurePosixPath) -> bool:
    if path.is_absolute() or ".." in path.parts or "__pycache__" in path.parts:
        return False
    if name in _TRIMMED:
        inner = path.parts[1:-1]
        trimmed = not _TRIMMED_FOLDERS.isdisjoint(inner) or _TRIMMED_NAMES.fullmatch(path.name)
        return not trimmed
    return path.suffix != ".pyc"


def _modules_of(name: str, found: Distribution) -> list[str]:
    listed = (found.read_text("top_level.txt") or "").split()
    points = {point.module.partition(".")[0] for point in found.entry_points}
    return listed or sorted(points) or [name.replace("-", "_")]


def _tree_of(module: str) -> dict[str, Path]:
    spec = PathFinder.find_spec(module)
    if spec is None or spec.origin is None:
        raise UserError(f"cannot package '{module}': its files are not found", code="package")
    if not spec.submodule_search_locations:
        return {Path(spec.origin).name: Path(spec.origin)}
    root = Path(next(iter(spec.submodule_search_locations)))
    return {
        f"{module}/{path.relative_to(root).as_posix()}": path
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _entry(name: str, size: int, mode: int = 0o644) -> tarfile.TarInfo:
    """Return the entry of a file: the same for the same content, whoever packs it, and when."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    entry.mode = 0o755 if mode & 0o100 else 0o644
    return entry
