"""Have everything that reads files read damaged and hostile ones.

    python tools/fuzz.py [TARGET ...] [--seconds N] [--seed N] [--finds DIR]
    python tools/fuzz.py [TARGET ...] --list
    python tools/fuzz.py --seeds
    python tools/fuzz.py [TARGET ...] --replay [FILE ...]

Each target reads inputs that are made of its corpus (`tests/corpora`), for `--seconds` in all,
which the targets share: each has its turn in every minute. What takes long before the first input,
compiling most of all, is done before. A find is told at once: its input, and beside it what
happened, are in `--finds` (build/finds by default). When the defect is mended, the input belongs
into the corpus: `tests/project/test_fuzzing.py` reads every file there. `--replay` does that by
hand.

`--seeds` writes the good files of simprof's own formats again: do that where a format has changed.

The exit status is 1 if there were finds, or if a target has read nothing. `tools/fuzzing` says how
it is done.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.fuzzing import campaign, corpus, seeds
from tools.fuzzing.targets import TARGETS
from tools.fuzzing.worker import Find, Target

ROOT = Path(__file__).resolve().parents[1]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all by default")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--seed", type=int, help="of the random numbers; drawn by default")
    parser.add_argument("--finds", type=Path, default=ROOT / "build" / "finds")
    parser.add_argument(
        "--replay", nargs="*", type=Path, metavar="FILE", help="the corpus by default"
    )
    parser.add_argument("--seeds", action="store_true", help="make the good files again")
    parser.add_argument("--list", action="store_true", help="list the targets")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit status."""
    options = parse(arguments)
    if unknown := [name for name in options.targets if name not in TARGETS]:
        print(f"fuzz: no target {unknown[0]}: choose from {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    chosen = [TARGETS[name] for name in options.targets or TARGETS]
    if options.list:
        for target in chosen:
            print(f"{target.name:<10} {target.summary}")
        return 0
    os.environ["SIMPROF_NO_CACHE"] = "1"
    if options.seeds:
        for path in seeds.write_all():
            print(path.relative_to(ROOT))
        return 0
    if options.replay is not None:
        return replay(chosen, options.replay)
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}; repeat with --seed {seed}", flush=True)
    return fuzz(chosen, options.seconds, seed, options.finds)


def fuzz(targets: Sequence[Target], seconds: float, seed: int, finds: Path) -> int:
    """Give each target its share of the time; return the exit status."""

    def tell(target: Target, find: Find) -> None:
        path = campaign.keep(find, finds / target.name)
        print(f"FIND in {target.name}: {path}\n{find.kind}\n{find.story[-2000:]}", flush=True)

    jobs = [(target, corpus.inputs(target.name)) for target in targets]
    campaigns = campaign.run(jobs, seed, seconds, tell)
    for done in campaigns:
        rate = done.inputs / done.seconds if done.seconds else 0
        print(
            f"{done.target:<10} {done.inputs:>12,} inputs  {done.refused:>12,} refused  "
            f"{done.seconds:>8,.0f} s  {rate:>8,.0f}/s  {len(done.finds)} finds"
            + (f"  {done.unconfirmed} unconfirmed" if done.unconfirmed else ""),
            flush=True,
        )
    if idle := [done.target for done in campaigns if not done.inputs]:
        print(f"fuzz: nothing was read by {', '.join(idle)}", file=sys.stderr)
    return 1 if idle or any(done.finds for done in campaigns) else 0


def replay(targets: Sequence[Target], files: Sequence[Path]) -> int:
    """Have targets read files, or all of their corpora; return the exit status."""
    found = 0
    for target in targets:
        paths = files or corpus.files(target.name)
        finds = [
            find
            for good in (False, True)
            for find in campaign.read_again(
                target,
                [
                    path.read_bytes()
                    for path in paths
                    if good != (bool(files) or corpus.is_find(path))
                ],
                good,
            )
        ]
        for find in finds:
            print(f"FIND in {target.name}: {find.kind}\n{find.story}")
        print(f"{target.name:<10} {len(paths):>5} files  {len(finds)} finds", flush=True)
        found += len(finds)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
