"""Your own numba-cuda, or other versions of what it stands on, in an environment.

    nox -s cuda12-nvidia -- --numba-cuda ../numba-cuda        a checkout: built, with its C extension
    nox -s cuda12-nvidia -- --numba-cuda dist/numba_cuda-0.31.0-....whl
    nox -s cuda12-nvidia -- --numba-cuda 0.31.0 --numba 0.62.1 --with 'nvidia-nvjitlink-cu12==12.4.*'

A candidate is resolved on top of the lock of the release that it is expected to behave as, into a virtual environment
of its own. Its records are named so that no release can have their name (`candidate-...`).
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import hashlib
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from conformance import environments, registry
from conformance.environments import _advice, _uv_program, interpreter_version
from conformance.errors import SuiteError
from conformance.matrices import Matrices
from conformance.model import Cell, Environment, Release
from conformance.paths import cache

NUMBA_CUDA = "numba-cuda"
# Records of candidates are called so; no version begins like this.
PREFIX = "candidate-"
# Packages with an option of their own: each takes a version, a specifier, a wheel or a checkout.
OPTIONS = (NUMBA_CUDA, "numba", "numpy", "cuda-core", "cuda-bindings", "cuda-pathfinder")


@dataclass(frozen=True)
class Asked:
    """A package that shall not be as the lock says, in the user's words: `numba`, `0.62.1`."""

    package: str
    value: str

    @property
    def words(self) -> str:
        """The options that ask for it, for the command line."""
        if self.package in OPTIONS:
            return f"--{self.package} {shlex.quote(self.value)}"
        return f"--with {shlex.quote(self.value)}"


@dataclass(frozen=True)
class Part:
    """One package of a candidate, found.

    kind: `version` (of the registry), `wheel` or `checkout`. revision: what `git describe` says of a checkout;
    dirty: whether it has changes that are not committed. content: the first 12 digits of the SHA-256 of a wheel,
    or of a checkout's files. requirement: how uv is asked for it.
    """

    package: str
    kind: str
    version: str
    requirement: str
    revision: str = ""
    dirty: bool = False
    content: str = ""
    ancestor: str = ""

    @property
    def name(self) -> str:
        """The part as it stands in a record's name."""
        if self.kind == "version":
            return self.version
        if not self.revision:
            return f"{self.version}-{self.kind}-{self.content[:6]}"
        return f"{self.revision}-dirty-{self.content[:6]}" if self.dirty else self.revision

    def facts(self) -> dict:
        """What a record says of it: nothing of this machine."""
        hidden = ("requirement", "package")
        return {k: v for k, v in asdict(self).items() if k not in hidden and v not in ("", False)}


@dataclass(frozen=True)
class Candidate:
    """What runs in place of a release.

    name: of its records. base: the release that it is expected to behave as. lock: all its packages, pinned. facts:
    for the record's header. words: the options that give it again.
    """

    name: str
    base: Release
    lock: Path
    facts: dict
    words: str


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that make a candidate."""
    group = parser.add_argument_group(
        "your own packages",
        "each takes a version (0.31.0), a specifier ('>=0.31'), a wheel or a checkout; "
        "--release then says as which release it is expected to behave",
    )
    for package in OPTIONS:
        group.add_argument(f"--{package}", metavar="WHAT", default="", help=f"another {package} than the lock's")
    group.add_argument("--with", action="append", default=[], dest="extra", metavar="REQUIREMENT", help="any other package: nvidia-nvjitlink-cu12==12.4.*, or a wheel")


def asked(options: argparse.Namespace) -> list[Asked]:
    """What the options ask for; raises SuiteError that lists all that cannot be understood."""
    found = [Asked(p, v) for p in OPTIONS if (v := getattr(options, p.replace("-", "_"), ""))]
    faults = []
    for text in options.extra:
        try:
            found.append(Asked(_package_of(text), text))
        except SuiteError as error:
            faults.append(str(error))
    names = [a.package for a in found]
    faults += [f"{name} is asked for twice" for name in sorted({n for n in names if names.count(n) > 1})]
    if faults:
        raise SuiteError("; ".join(faults))
    return found


def for_python(m: Matrices, version: str, already: list[Asked]) -> list[Asked]:
    """What takes the place of locked packages on a Python that no lock admits, unless the user says what does."""
    newer = m.common.newer.get(version)
    named = {a.package for a in already}
    lines = map(Requirement, newer.packages) if newer else []
    return [Asked(canonicalize_name(r.name), str(r.specifier)) for r in lines if canonicalize_name(r.name) not in named]


def words(asked_for: list[Asked], python: str = "") -> str:
    """The options that give the same again."""
    return " ".join([*(one.words for one in asked_for), *([f"--python {python}"] if python else [])])


def _package_of(text: str) -> str:
    if text.endswith(".whl"):
        return _wheel_facts(Path(text))[0]
    try:
        return canonicalize_name(Requirement(text).name)
    except InvalidRequirement as error:
        raise SuiteError(f"--with {text!r} is neither a requirement (numba==0.62.1) nor a wheel") from error


# -- what was asked for, found ---------------------------------------------------------------------


def find(one: Asked, python: Path) -> Part:
    """Build, or look up, one package; raises SuiteError that says what to mend."""
    if one.value.endswith(".whl"):
        return _wheel(one, python)
    if Path(one.value).is_dir():
        return _checkout(one, Path(one.value), python)
    if one.package in OPTIONS:
        return _published(one, _specifier(one), python)
    return _published(one, one.value, python)


def _specifier(one: Asked) -> str:
    try:
        return f"{one.package}=={Version(one.value)}"
    except InvalidVersion:
        pass
    try:
        return f"{one.package}{SpecifierSet(one.value)}"
    except InvalidSpecifier:
        raise SuiteError(
            f"--{one.package} {one.value!r}: no such folder or wheel, and neither a version (0.31.0) nor a specifier"
        ) from None


def _published(one: Asked, requirement: str, python: Path) -> Part:
    version = registry.newest(requirement, python)
    if version is None:
        raise SuiteError(f"{requirement}: no such version is published for Python {interpreter_version(python)}")
    return Part(one.package, "version", version, f"{one.package}=={version}")


def _wheel(one: Asked, python: Path) -> Part:
    paths = [Path(p) for p in sorted(glob.glob(one.value))] or [Path(one.value)]
    fitting = [p for p in paths if _fits(p, python)]
    if len(fitting) != 1:
        shown = ", ".join(p.name for p in fitting or paths)
        wanted = "one wheel" if fitting else f"a wheel for Python {interpreter_version(python)} (or choose with --python)"
        raise SuiteError(f"{one.value!r} must name {wanted}; it names {shown}")
    path = fitting[0].resolve()
    package, version = _wheel_facts(path)
    if package != one.package:
        raise SuiteError(f"{path.name} is a wheel of {package}, not of {one.package}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SuiteError(f"{one.value} cannot be read ({error.strerror})") from error
    content = hashlib.sha256(data).hexdigest()[:12]
    # A copy: a wheel that is built again under the same name is another one.
    kept = cache("candidates", f"wheel-{content}")
    environments._once(kept, lambda: _keep(kept / path.name, data))
    return Part(package, "wheel", version, (kept / path.name).as_uri(), content=content)


def _keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(data)


def _wheel_facts(path: Path) -> tuple[str, str]:
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise SuiteError(f"{path.name} is not the name of a wheel: {error}") from error
    return canonicalize_name(name), str(version)


def _fits(path: Path, python: Path) -> bool:
    """Whether a wheel's tags name the interpreter; uv has the last word on platforms."""
    try:
        tags = parse_wheel_filename(path.name)[3]
    except InvalidWheelFilename:
        return True  # told by who reads its name
    own = "cp" + interpreter_version(python).replace(".", "")
    return any(t.interpreter in (own, "py3") or t.abi == "abi3" for t in tags)


def _checkout(one: Asked, folder: Path, python: Path) -> Part:
    folder = folder.resolve()
    if not any((folder / name).exists() for name in ("pyproject.toml", "setup.py")):
        raise SuiteError(f"{one.value} is no checkout of {one.package}: it has neither pyproject.toml nor setup.py")
    files = _files(folder)
    content = _digest(folder, files)
    revision = _git(folder, "describe", "--tags", "--always", "--abbrev=12", "--match", "v[0-9]*")
    wheel = _build(one, folder, files, content, python)
    package, version = _wheel_facts(wheel)
    if package != one.package:
        raise SuiteError(f"{one.value} is a checkout of {package}, not of {one.package}")
    return Part(
        package, "checkout", version, wheel.as_uri(), revision,
        dirty=bool(revision and _git(folder, "status", "--porcelain")),
        content=content,
        ancestor=_newest_tag(folder),
    )  # fmt: skip


def _git(folder: Path, *arguments: str) -> str:
    """What git answers; "" where there is no git or nothing to answer."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            check=False, capture_output=True, text=True, encoding="utf-8", errors="replace",
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _newest_tag(folder: Path) -> str:
    """The newest version among the tags that a checkout descends from; "" without any (a shallow clone)."""
    found = []
    for tag in _git(folder, "tag", "--merged", "HEAD").split():
        try:
            found.append(Version(tag.removeprefix("v")))
        except InvalidVersion:
            continue
    return str(max(found)) if found else ""


def _files(folder: Path) -> list[str]:
    """A checkout's files: what git knows or would, or everything where there is no git."""
    listed = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed:
        return sorted({name for name in listed.split("\0") if name and (folder / name).is_file()})
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def _digest(folder: Path, files: list[str]) -> str:
    whole = hashlib.sha256()
    for name in files:
        data = (folder / name).read_bytes()
        whole.update(f"{name}\0{len(data)}\n".encode() + data)
    return whole.hexdigest()[:12]


def _build(one: Asked, folder: Path, files: list[str], content: str, python: Path) -> Path:
    """The wheel of a checkout, built outside of it (a build leaves files behind) once for its content."""
    built = cache("candidates", f"{one.package}-{content}-py{interpreter_version(python)}")

    def make() -> None:
        with tempfile.TemporaryDirectory(prefix="candidate-") as copy:
            for name in files:
                target = Path(copy, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(folder / name, target)
            command = [_uv_program(), "build", "--wheel", "--no-config", "--out-dir", str(built), copy]
            command[3:4] = ["--python", str(python)]
            done = subprocess.run(
                command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, encoding="utf-8", errors="replace",
            )
        log = built.with_name(built.name + ".log")
        log.write_text(done.stdout, encoding="utf-8")
        if done.returncode:
            what = f"{one.package} of {one.value} does not build: {_first_error(done.stdout)}"
            raise SuiteError(f"{what}{_advice(done.stdout)} (the whole log: {log})")

    environments._once(built, make)
    wheels = list(built.glob("*.whl"))
    if len(wheels) != 1:
        raise SuiteError(f"{one.value} builds {len(wheels)} wheels where one is wanted")
    return wheels[0]


def _first_error(log: str) -> str:
    """The line of a build's log that says what went wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    # That it failed to build, and in which temporary folder, is no reason; uv's last `cause:` is.
    reasons = [line for line in lines if not line.startswith("error: Failed to build")]
    telling = [line for line in reasons if re.search(r"(^|[\s:])(fatal error|error|\w*Error):", line, re.IGNORECASE)]
    # uv's own words enclose those of the compiler; the compiler's come first.
    return (telling or lines[-1:] or ["no word of it"])[0][:300]


# -- as which release, with which packages ----------------------------------------------------------


def base(m: Matrices, parts: list[Part], release: str = "") -> Release | None:
    """The newest known release that a numba-cuda descends from, or the one asked for; None where it is not asked for.

    By its version, and for a checkout by the tags that it descends from as well: of the two the newer one
    (releases of a maintenance branch are no ancestors of what came after them).
    """
    if release:
        return m.release(release)
    for part in parts:
        if part.package == NUMBA_CUDA:
            version = max(Version(v) for v in (part.version, part.ancestor) if v)
            known = [r for r in m.releases if Version(r.version) <= version]
            if not known:
                raise SuiteError(f"numba-cuda {version} is older than every known release: say as which with --release")
            return max(known, key=lambda r: Version(r.version))
    return None


def settle(m: Matrices, environment: Environment, release: Release, parts: list[Part], words: str, python: Path) -> Candidate:
    """The candidate that these packages make of an environment at a release; raises SuiteError where uv finds none."""
    lock = m.lock(environment, release)
    resolved = resolve(
        f"{environment.lock}-{release.version}", _requirements(m, environment, release, parts),
        _left(environment.constraints, parts), lock, python, without=frozenset(p.package for p in parts),
    )  # fmt: skip
    own = next((p.name for p in parts if p.package == NUMBA_CUDA), release.version)
    others = [f"{p.package}-{p.name}" for p in parts if p.package != NUMBA_CUDA]
    name = PREFIX + re.sub(r"[^A-Za-z0-9.+_-]", "_", "-".join([own, *others]))
    facts = {
        "name": name,
        "base": release.version,
        "packages": {p.package: p.facts() for p in parts},
        "changed": changed(lock, resolved),
    }
    return Candidate(name, release, resolved, facts, words)


def place(cell: Cell, subject: Candidate) -> Cell:
    """A release's cell with a candidate in the release's place."""
    lock = f"{subject.lock.stem}@{environments.digest(subject.lock)}"
    return dataclasses.replace(cell, lock=lock, candidate=subject.facts, words=subject.words)


def _requirements(m: Matrices, environment: Environment, release: Release, parts: list[Part]) -> list[str]:
    """What is asked of uv: the environment's packages, these in place of its own, and no pins (the lock has them)."""
    lines = {NUMBA_CUDA: f"{NUMBA_CUDA}[{environment.extra}]=={release.version}"}
    lines |= {_name(p): p for p in [*environment.packages, *m.common.packages]}
    for part in parts:
        extra = f"[{environment.extra}]" if part.package == NUMBA_CUDA else ""
        direct = part.requirement.startswith("file:")
        tail = f" @ {part.requirement}" if direct else f"=={part.version}"
        lines[part.package] = f"{part.package}{extra}{tail}"
    return list(lines.values())


def _left(constraints: list[str], parts: list[Part]) -> list[str]:
    """The constraints without those on what was asked for."""
    named = {p.package for p in parts}
    return [c for c in constraints if _name(c) not in named]


def _name(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def resolve(
    name: str, requirements: list[str], constraints: list[str], lock: Path, python: Path,
    options: tuple[str, ...] = (), without: frozenset[str] = frozenset(),
) -> Path:  # fmt: skip
    """A lock file for an interpreter: what a lock says, where that is possible.

    Made once for the same question. without: packages for which the lock's word does not count. Raises SuiteError
    with uv's reason where there is no solution.
    """
    preferred = _lines_without(lock.read_text(encoding="utf-8"), without) if lock.exists() else ""
    version = interpreter_version(python)
    question = "\n".join([*requirements, "--", *constraints, "--", *options, "--", version, preferred])
    folder = cache("candidates", "locks")
    made = folder / f"{name}-{hashlib.sha256(question.encode()).hexdigest()[:12]}.txt"
    if made.exists():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        wanted, bounds, out = (Path(scratch, n) for n in ("requirements.in", "constraints.in", "out.txt"))
        wanted.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        bounds.write_text("\n".join(constraints) + "\n", encoding="utf-8")
        out.write_text(preferred, encoding="utf-8")  # uv prefers what its output file says already
        environments._uv(
            "pip", "compile", "--quiet", "--generate-hashes", "--no-annotate", "--no-header", "--python", str(python),
            "--constraints", str(bounds), "--output-file", str(out), *options, str(wanted),
            doing=f"resolve {', '.join(requirements[:3])} ... for Python {version}",
        )  # fmt: skip
        out.rename(made)
    return made


def _lines_without(lock: str, names: frozenset[str]) -> str:
    """A lock's text without the entries of some packages."""
    kept, keeping = [], True
    for line in lock.splitlines():
        if line and not line[0].isspace() and not line.startswith("#"):
            keeping = canonicalize_name(re.split(r"[=\[ @;]", line)[0]) not in names
        if keeping:
            kept.append(line)
    return "\n".join(kept) + "\n"


def changed(before: Path, after: Path) -> dict[str, list[str]]:
    """Packages whose version is none of the lock's: the lock's versions, and the one in its place."""
    known: dict[str, list[str]] = {}
    for name, version in registry.pinned(before.read_text(encoding="utf-8")) if before.exists() else []:
        known.setdefault(name, []).append(version)
    return {
        name: [" or ".join(known.get(name, [])) or "absent", version]
        for name, version in registry.pinned(after.read_text(encoding="utf-8"))
        if version not in known.get(name, [])
    }
