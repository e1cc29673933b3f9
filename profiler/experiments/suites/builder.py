"""Building suites: sources to programs, in parallel, each program once.

A built program is kept in the cache under a key made of the compiler's version, its flags and a
digest of all that it is built from. Source trees are shared by the widths; several processes may
build at the same time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from msgspec import Struct
from msgspec.structs import asdict, replace

from simprof.profiler.experiments.suites import toolchain
from simprof.profiler.experiments.suites.sources import (
    fetched_archive,
    leads_out,
    prepare,
    suite_cache,
    suites_directory,
    unpack,
)
from simprof.profiler.experiments.suites.suite import (
    Benchmark,
    BuildReport,
    BuildState,
    BuiltProgram,
    CounterBuild,
    Recipe,
    Suite,
    Width,
    build_name,
)
from simprof.profiler.experiments.suites.toolchain import BuildError
from simprof.profiler.profiles.fingerprint import file_sha256
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.request.request import Phase, ProgressCallback, report_progress
from simprof.simulator.errors import SimulatorError, UsageError

CLOCK = "clock.c"  # The source of the clock that stands still, in the suites' `src/support`
CLOCK_FLAGS = ("-Wl,--wrap=gettimeofday,--wrap=time",)
RECORD = "BUILD.txt"
KEY_DIGITS = 20


class BuildJob(Struct, frozen=True):
    """One program to build in one width, with a compiler's counters in it or without."""

    benchmark: Benchmark
    width: Width
    counters: CounterBuild = CounterBuild.NONE

    @property
    def key(self) -> tuple[str, str]:
        """Its key in the report."""
        return (self.benchmark.name, build_name(self.width, self.counters))

    @property
    def recipe(self) -> Recipe:
        """How it is obtained; with counters a committed program is built from its sources.

        Raises BuildError if the suite has no sources of a committed program.
        """
        own = self.benchmark.recipe
        if self.counters is CounterBuild.NONE or own.committed is None:
            return own
        if own.counted is None:
            raise BuildError(
                f"{self.benchmark.name} is committed and its suite does not say how to build it "
                f"with {toolchain.COUNTER_FLAGS[self.counters][0]}: leave it out"
            )
        return own.counted


# Flags of compilers that name no file and no program; others may have one executed, or written.
HARMLESS_FLAG = re.compile(
    r"-[DU]\w.*|-O\w*|-g[\w-]*|-w|-W(no-)?[a-z][\w-]*(=\w+)?|-std=[\w+:]+|-m[\w=.-]+|-l[\w+.-]+"
    r"|-f(?!plugin|dump|profile|auto-profile|use-ld|stack-usage|opt-info)[a-z][\w-]*(=[\w-]+)?"
)


def executed_by(recipe: Recipe) -> str | None:
    """Return a command of the user's that building a program executes, None if there is none."""
    for each in (recipe, recipe.counted):
        if each is None:
            continue
        for command in (*each.prepare, *each.commands):
            return command
        for flag in each.flags:
            if not HARMLESS_FLAG.fullmatch(flag):
                return f"compiler {flag}"
    return None


def build_suite(
    suite: Suite,
    *,
    widths: Sequence[Width] = (64, 32),
    # Whose counters the builds of each width have in them.
    counters: Sequence[CounterBuild] = (CounterBuild.NONE,),
    jobs: int = 2,  # How many programs are built at the same time
    # Called as the builds go on, from one thread at a time.
    progress: ProgressCallback | None = None,
    # The directory for all that is made; None: that of suites in the user's cache.
    cache: Path | None = None,
) -> BuildReport:
    """Make the suite's inputs, and its programs in each width; what the cache has stays.

    Raises UsageError if the inputs or the cache cannot be written, or the suite's file names
    commands and may not. A program that cannot be built is a row of `failures`.
    """
    if not suite.may_execute:
        for benchmark in suite.benchmarks:
            if command := executed_by(benchmark.recipe):
                raise UsageError(
                    f"{suite.path}: benchmark {benchmark.name} has this executed on your computer: "
                    f"{command!r}: read the file, then give --allow-commands"
                )
    builder = Builder(cache or suite_cache())
    wanted = [
        BuildJob(benchmark, width, each)
        for benchmark in suite.benchmarks
        for width in widths
        for each in counters
    ]
    programs: dict[tuple[str, str], BuiltProgram] = {}
    failures: dict[tuple[str, str], str] = {}
    teller = _BuildTeller(progress, len(wanted))
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        running = {pool.submit(builder.build, job, teller): job for job in wanted}
        try:
            for future in as_completed(running):
                job = running[future]
                try:
                    programs[job.key] = future.result()
                except (SimulatorError, OSError) as error:
                    failures[job.key] = " ".join(str(error).split())
                    teller.tell(job, "failed")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    order = [job.key for job in wanted]
    return BuildReport(
        suite.name,
        {key: programs[key] for key in order if key in programs},
        {key: failures[key] for key in order if key in failures},
    )


class _BuildTeller:
    def __init__(self, progress: ProgressCallback | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0
        self._lock = Lock()

    def tell(self, job: BuildJob, state: BuildState) -> None:
        with self._lock:
            self._done += state in ("built", "cached", "failed")
            name, build_name = job.key
            text = f"{state} {name} ({build_name})"
            report_progress(self._progress, Phase.BUILDING, self._done, self._total, text=text)


class Builder:
    """Makes programs and inputs below one cache directory."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        try:
            for name in ("bin", "trees", "locks", "logs"):
                (cache / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{cache} cannot be written ({error.strerror}): set XDG_CACHE_HOME"
            ) from None

    def build(self, job: BuildJob, teller: _BuildTeller) -> BuiltProgram:
        """Return the program, built unless the cache has it, with its inputs written.

        Raises BuildError if it cannot be built.
        """
        recipe = job.recipe
        if recipe.committed is not None:
            prepare(job.benchmark, lambda: Path())
            program = committed_program(job)
            teller.tell(job, "cached")
            return program
        toolchain.check(recipe.language, job.width)
        planned = self._described(job)
        with self._locked(f"{job.benchmark.name}-{job.key[1]}"):
            known = load_record(planned)
            if known is None:
                tree = self._tree(job, teller)
                prepare(job.benchmark, lambda: tree)
                teller.tell(job, "building")
                known = self._compile(job, tree, planned)
                teller.tell(job, "built")
            else:
                prepare(job.benchmark, lambda: self._tree(job, teller))
                teller.tell(job, "cached")
        return known

    def _described(self, job: BuildJob) -> BuiltProgram:
        """Return the record of a program that is not built yet; only its checksum is missing."""
        recipe = job.recipe
        compiler = toolchain.version(recipe.language)
        flags = flags_of(recipe, job.width, job.counters)
        source = source_hash(recipe)
        key = hashlib.sha256(repr((compiler, flags, source, job.key)).encode()).hexdigest()
        name, build_name = job.key
        path = self._cache / "bin" / f"{name}-{build_name}-{key[:KEY_DIGITS]}.elf"
        return BuiltProgram(name, build_name, path, "", compiler, flags, source)

    def _tree(self, job: BuildJob, teller: _BuildTeller) -> Path:
        recipe = job.recipe
        tree = self._cache / "trees" / f"{job.benchmark.name}-{tree_hash(recipe)[:KEY_DIGITS]}"
        with self._locked(tree.name):
            if tree.is_dir():
                return tree
            teller.tell(job, "fetching")
            with scratch_directory("tree-", self._cache) as scratch:
                new = scratch / "new"
                self._prepare(job, new)
                new.replace(tree)
        return tree

    def _prepare(self, job: BuildJob, tree: Path) -> None:
        recipe = job.recipe
        if recipe.package is None:
            tree.mkdir()
        else:
            with self._locked("archives"):
                archive = fetched_archive(recipe.package, self._cache)
            unpack(archive, tree, recipe.package.directory)
        work = inside(tree, recipe.directory)
        if not work.is_dir():
            raise BuildError(f"its sources have no directory {recipe.directory!r}")
        for file in copied_sources(recipe):
            shutil.copy(file, work)
        log = self._log(f"{job.benchmark.name}-sources")
        for command in recipe.prepare:
            toolchain.run(_words(job, command), work, log)

    def _log(self, name: str) -> Path:
        log = self._cache / "logs" / f"{name}.log"
        log.unlink(missing_ok=True)
        return log

    def _compile(self, job: BuildJob, tree: Path, planned: BuiltProgram) -> BuiltProgram:
        """Build the program in a copy of the tree, or outside of it, and record it."""
        log = self._log(f"{job.benchmark.name}-{planned.build}")
        with scratch_directory("build-", self._cache) as scratch:
            if job.recipe.commands:
                product = execute_commands(job, tree, scratch / "source", log)
            else:
                product = compile_sources(job, tree, scratch / "program", log)
            check_program(product, job.width)
            product.chmod(0o755)
            result = replace(planned, sha256=file_sha256(product))
            product.replace(planned.path)
        record = asdict(result) | {"path": planned.path.name}
        record_path(planned.path).write_text(json.dumps(record, indent=1) + "\n")
        return result

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Keep other threads and processes from making the same thing meanwhile."""
        with (self._cache / "locks" / name).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def record_path(program: Path) -> Path:
    """Return the file that says how a program in the cache was built."""
    return program.with_suffix(".json")


def load_record(planned: BuiltProgram) -> BuiltProgram | None:
    """Return the program with its checksum if the cache has it undamaged, otherwise None."""
    try:
        record = json.loads(record_path(planned.path).read_text())
        sha256 = record["sha256"]
        if file_sha256(planned.path) != sha256:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return replace(planned, sha256=sha256)


def flags_of(
    recipe: Recipe, width: Width, counters: CounterBuild = CounterBuild.NONE
) -> tuple[str, ...]:
    """Return the compiler's flags, without those that only name directories."""
    clock = CLOCK_FLAGS if recipe.constant_clock else ()
    own = (*recipe.flags, *toolchain.COUNTER_FLAGS[counters])
    return (*toolchain.WIDTH_FLAGS[width], *toolchain.FLAGS, *own, *clock)


def copied_sources(recipe: Recipe) -> tuple[Path, ...]:
    """Return the committed files that are copied into the source directory."""
    if not recipe.constant_clock:
        return recipe.files
    return (*recipe.files, suites_directory() / "src" / "support" / CLOCK)


def tree_hash(recipe: Recipe) -> str:
    """Return a digest of what a tree is made from: archive, committed files, preparation."""
    total = hashlib.sha256()
    parts = [recipe.package and recipe.package.sha256, recipe.directory, recipe.prepare]
    total.update(repr(parts).encode())
    for file in copied_sources(recipe):
        total.update(f"{file.name} {file_sha256(file)}\n".encode())
    return total.hexdigest()


def source_hash(recipe: Recipe) -> str:
    """Return a digest of the tree and of the recipe's other parts, without machine paths."""
    parts = (
        tree_hash(recipe),
        recipe.commands,
        recipe.sources,
        recipe.exclude,
        recipe.language,
        recipe.product,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def compile_sources(job: BuildJob, tree: Path, product: Path, log: Path) -> Path:
    """Compile and link the recipe's sources in one call of the compiler; with counters in several.

    The counters of a source go to a file that is called like it: a number keeps those apart whose
    sources have one name.
    """
    recipe = job.recipe
    work = inside(tree, recipe.directory)
    left_out = {path for pattern in recipe.exclude for path in _matching(job, work, pattern)}
    sources = []
    for pattern in recipe.sources:
        matching = sorted(_matching(job, work, pattern) - left_out)
        if not matching:
            raise BuildError(f"{job.benchmark.name}: no source matches {pattern}")
        # the compiler must take a name for a file, whatever that begins with
        names = (str(path.relative_to(work)) for path in matching)
        sources += [f"./{name}" if name.startswith(("-", "@")) else name for name in names]
    if recipe.constant_clock:
        sources.append(CLOCK)
    command = [toolchain.COMPILERS[recipe.language], *flags_of(recipe, job.width, job.counters)]
    command += [*mapped(tree), *counters_placed(job.counters, work)]
    if recipe.language == "fortran":
        # Module files, which only the compiler reads; their place is not to stand in the program.
        command += ["-J", str(product.parent), "-gno-record-gcc-switches"]
    parts = list(dict.fromkeys(sources))
    if job.counters is not CounterBuild.NONE:
        for number, source in enumerate(parts):
            parts[number] = str(product.with_name(f"{number}.o"))
            place = ["-dumpdir", f"counters-{number}-", "-dumpbase", Path(source).stem]
            toolchain.run([*command, *place, "-c", "-o", parts[number], source], work, log)
    toolchain.run([*command, "-o", str(product), *parts, "-lm"], work, log)
    return product


def _matching(job: BuildJob, directory: Path, pattern: str) -> set[Path]:
    try:
        return set(directory.glob(pattern))
    except ValueError as error:
        raise BuildError(f"{job.benchmark.name}: {pattern!r} is no pattern ({error})") from None


def _words(job: BuildJob, command: str, known: Mapping[str, str] | None = None) -> list[str]:
    """Return the words of a command, with what is known filled in.

    Raises BuildError if it has other braces, or quotes that do not end.
    """
    try:
        words = shlex.split(command)
        return words if known is None else [word.format(**known) for word in words]
    except (ValueError, LookupError, AttributeError) as error:
        text = f"{job.benchmark.name}: {command!r} cannot be understood ({error})"
        raise BuildError(text) from None


def inside(tree: Path, name: str) -> Path:
    """Return a place in a program's sources.

    Raises BuildError if it is elsewhere, behind a link, say.
    """
    if leads_out(name, tree):
        raise BuildError(f"{name!r} leads out of the program's sources")
    return tree / name


def mapped(tree: Path) -> list[str]:
    """Return flags that keep the directory's name out of what is built."""
    return [f"-ffile-prefix-map={tree}=."]


def counters_placed(counters: CounterBuild, work: Path) -> list[str]:
    """Return flags that keep the directory's name out of the names of the files of counters.

    The program writes them to its current directory.
    """
    if counters is CounterBuild.NONE:
        return []
    return ["-dumpdir", "counters-", f"-fprofile-prefix-path={work}", "-gno-record-gcc-switches"]


def execute_commands(job: BuildJob, tree: Path, copy: Path, log: Path) -> Path:
    """Build with the recipe's commands in a copy of the tree; return the product."""
    recipe = job.recipe
    shutil.copytree(tree, copy, symlinks=True)
    work = inside(copy, recipe.directory)
    width = toolchain.WIDTH_FLAGS[job.width]
    counting = toolchain.COUNTER_FLAGS[job.counters] + tuple(counters_placed(job.counters, work))
    words = {
        "cc": " ".join([toolchain.COMPILERS["c"], *width]),
        "cxx": " ".join([toolchain.COMPILERS["c++"], *width]),
        "fc": " ".join([toolchain.COMPILERS["fortran"], *width]),
        "flags": " ".join(["-O2", "-g", *recipe.flags, *mapped(copy), *counting]),
        "host": "sparc64-linux-gnu",
        "name": job.benchmark.name,
    }
    for command in recipe.commands:
        toolchain.run(_words(job, command, words), work, log)
    product = inside(work, " ".join(_words(job, recipe.product or "", words)))
    if not product.is_file():
        raise BuildError(f"{job.benchmark.name}: its commands made no {recipe.product}")
    return product


def check_program(path: Path, width: Width) -> None:
    """Raise BuildError unless the file is a SPARC program of this width."""
    header = path.read_bytes()[:20]
    machine = int.from_bytes(header[18:20], "big")
    if (header[:5], machine) != ((b"\x7fELF\x02", 43) if width == 64 else (b"\x7fELF\x01", 18)):
        raise BuildError(f"{path.name}: not a {width}-bit SPARC program: another compiler made it")


def committed_program(job: BuildJob) -> BuiltProgram:
    """Describe a program that is committed, with the compiler that its directory's record names."""
    name, build_name = job.key
    directory = build_name.partition("-")[0]
    template = job.benchmark.recipe.committed or ""
    path = Path(template.replace("{width}", directory))
    try:
        sha256 = file_sha256(path)
        record = path.parent.parent / RECORD
        compiler = record.read_text().splitlines()[0] if record.is_file() else "unknown"
    except (OSError, IndexError) as error:
        raise BuildError(f"{path} cannot be read: {error}") from None
    return BuiltProgram(name, build_name, path, sha256, compiler, (), sha256)
