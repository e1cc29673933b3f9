"""What the text of TPP says of each part of it, beyond its tables (`tpp`): tables of their own.

`tpp-parts`: what the removal of cold and of obvious paths gains (4.1, 5.1). `tpp-lengths`: the path
length that is lost by disconnecting loops (4.2.1). `tpp-age`, `tpp-train`: what an edge profile of
the run's beginning is worth, by its length, and one of another input (3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from simprof.profiler.experiments.tables import tpp
from simprof.profiler.experiments.tables.claims import of_hashing, rule
from simprof.profiler.experiments.tables.expressions import ColumnSpec, column, columns
from simprof.profiler.experiments.tables.spec import TableSpec
from simprof.profiler.experiments.tables.table import Bars

PARTS = {
    "cold": tpp.tpp_need(cold=tpp.COLD, loop=0, count_obvious=True),
    "obvious": tpp.tpp_need(cold=0, loop=tpp.LOOP),
    "uncounted": tpp.tpp_need(cold=tpp.COLD, loop=tpp.LOOP, no_cold_counter=True),
}
TPP_PARTS = TableSpec(
    "tpp-parts",
    "TPP sections 4.1 and 5.1: what each part of TPP gains",
    f"{tpp.PAPER}, sections 4.1 and 5.1 (text)",
    "Overhead in percent of base instructions. Cold only: cold paths are removed, obvious paths "
    "counted, and no loop is disconnected. Obvious only: nothing is cold. Cold uncounted: "
    "TPP(5,15) whose cold paths are kept out of all counts, and counted nowhere. Hashed: share of "
    "PP's increments that are in hash tables.",
    {"pp": tpp.PP, "t515": tpp.TPP["t515"], **PARTS},
    (
        *columns("""
pp | PP % | percent | pp.overhead
t515 | TPP(5,15) % | percent | t515.overhead
cold | cold only % | percent | cold.overhead
obvious | obvious only % | percent | obvious.overhead
uncounted | cold uncounted % | percent | uncounted.overhead
"""),
        tpp.PP_HASHED,
    ),
    (
        of_hashing(
            "About 60 % of the reduction of overhead comes from the removal of cold paths alone.",
            f"ours: part of the reduction: 40 <= {tpp.part_of_reduction('cold')} <= 80 %",
        ),
        of_hashing(
            "Not to count cold paths lowers the average overhead from 14 % to 13 % only.",
            "paper: saved: 0 <= 100 * (mean(t515) - mean(uncounted)) / mean(t515) <= 100 / 7 % of "
            "TPP(5,15)'s overhead",
        ),
    ),
    notes=(
        "That obvious paths gain next to nothing without the removal of cold ones (5.1) is judged "
        "in table 2, with all loops left in place; here they are disconnected as in TPP(5,15).",
    ),
    bars=Bars(("pp", "cold", "obvious", "t515", "uncounted"), "overhead, % of base instructions"),
    originals="tpp2",
)

# Average iterations of a loop from which on it is disconnected: 100/j.
ITERATIONS = {"l10": 10, "l100": 100}
CUT = {key: tpp.tpp_need(cold=0, loop=100 / turns) for key, turns in ITERATIONS.items()}


def _length(need: str) -> str:
    """Return the blocks of an executed path on average."""
    # Every turn of a self-loop is a path of one block. Where its loop is not disconnected, it has
    # a counter of its own (EPP 4.1): the paper's tool, which breaks self-loops as any back edge,
    # executes as many paths then, and as many blocks.
    paths = f"({need}.facts.executions + {need}.all.self_loop_increments)"
    return f"(({need}.facts.edges + {paths}) / {paths})"


def _lost(need: str) -> str:
    return f"100 * ({_length('pp')} - {_length(need)}) / {_length('pp')}"


TPP_LENGTHS = TableSpec(
    "tpp-lengths",
    "TPP section 4.2.1: path length lost by disconnecting loops",
    f"{tpp.PAPER}, section 4.2.1 (text)",
    "Blocks of an executed path on average: under PP, and with loops of 10 or of 100 iterations "
    "on average and more disconnected, TPP(0,10) and TPP(0,1); lost: in percent of PP's. Every "
    "turn of a self-loop is a path of one block.",
    {"pp": tpp.PP, **CUT},
    columns(f"""
pp | PP | decimal | {_length("pp")}
l10 | loops of 10 | decimal | {_length("l10")}
lost_l10 | lost % | percent | {_lost("l10")}
l100 | loops of 100 | decimal | {_length("l100")}
lost_l100 | lost % | percent | {_lost("l100")}
"""),
    (
        rule(
            "What is lost by disconnecting loops of 10 iterations on average and more is "
            "negligible: average path length falls by 1.5 % only.",
            "ours: mean(lost_l10) <= 5 %",
        ),
        rule(
            "What is lost by disconnecting loops of 100 iterations on average and more is "
            "imperceptible.",
            "ours: mean(lost_l100) <= 0.5 %",
        ),
    ),
    notes=(
        "Where loops are disconnected, fewer routines have so many paths that they are truncated, "
        "and truncation shortens paths, too.",
    ),
    bars=Bars(("pp", "l10", "l100"), "blocks a path"),
    originals="tpp2",
)

# Key -> instructions at the run's beginning whose edge profile guides TPP(5,15)
AGES = {f"t{power}": 10**power for power in range(4, 8)}
AGE_TITLES = {**{key: f"10^{key[1:]}" for key in AGES}, "t515": "whole", "t6c": "10^6 counted"}


def _guided(titles: Mapping[str, str], start: str = "a") -> Iterable[ColumnSpec]:
    """Yield the columns of overhead and attribution of runs that are guided differently."""
    for key, title in titles.items():
        yield column(f"{key} | {title} % | percent | {key}.overhead")
        yield tpp.definite_flow(key, f"{start}{key.removeprefix('t') if start == 'a' else key}")


TPP_AGE = TableSpec(
    "tpp-age",
    "TPP section 3: edge profiles of the run's beginning",
    f"{tpp.PAPER}, sections 3 and 5 (text)",
    "Overhead in percent of base instructions and attribution of definite flow (AoDF) of TPP(5,15) "
    "guided by the edge profile of the run's first 10^4 to 10^7 instructions, and of the whole "
    "run; counted: obvious paths have counters, too. Beside them the overhead of PP.",
    {
        "pp": tpp.PP,
        **{
            key: tpp.tpp_need(cold=tpp.COLD, loop=tpp.LOOP, first=first)
            for key, first in AGES.items()
        },
        "t515": tpp.TPP["t515"],
        "t6c": tpp.tpp_need(cold=tpp.COLD, loop=tpp.LOOP, first=AGES["t6"], count_obvious=True),
    },
    (*columns("pp | PP % | percent | pp.overhead"), *_guided(AGE_TITLES)),
    (
        rule(
            "Edge profiles of an early stage of the run are representative: with one that is, "
            "attribution of definite flow exceeds 98 %.",
            "paper: mean(a6c) >= 98 %",
        ),
    ),
    notes=(
        "Obvious paths have the counts of the edge profile, which end where it ends: without "
        "counters of their own, or an edge profile that goes on, all that they execute later is "
        "lost. The claim is judged where they are counted, after the first million instructions.",
        "The code is in place from the run's first instruction on, so that the counts are of the "
        "whole run; a run that is shorter than the profile is guided by all of itself. The paper "
        "has edge profiles of whole runs only.",
    ),
    bars=Bars(("a4", "a5", "a6", "a7", "a515"), "attribution of definite flow, %"),
    originals="tpp2",
)


# -- another input's edge profile -----------------------------------------------------------------

TRAIN: dict[str, object] = {"guide": "train"}
COUNTED: dict[str, object] = {"count_obvious": True}
# Key -> title, options beside those of TPP(5,15)
GUIDES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "t515": ("own", {}),
    "train": ("train", TRAIN),
    "t515c": ("own counted", COUNTED),
    "trainc": ("train counted", TRAIN | COUNTED),
}
TPP_TRAIN = TableSpec(
    "tpp-train",
    "TPP section 3: the train input's edge profile guides the ref run",
    f"{tpp.PAPER}, sections 3 and 5 (text)",
    "Overhead in percent of base instructions and attribution of definite flow (AoDF) of TPP(5,15) "
    "guided by the edge profile of the run itself (own) and of a run with the train input; "
    "counted: obvious paths have counters, too. Beside them the overhead of PP.",
    {
        "pp": tpp.PP,
        **{
            key: tpp.tpp_need(cold=tpp.COLD, loop=tpp.LOOP, **more)
            for key, (_, more) in GUIDES.items()
        },
    },
    (
        *columns("pp | PP % | percent | pp.overhead"),
        *_guided({key: title for key, (title, _) in GUIDES.items()}, "a_"),
        tpp.PP_HASHED,
    ),
    (
        rule(
            "An edge profile that was taken earlier is representative: with one that is, "
            "attribution of definite flow exceeds 98 %.",
            "paper: mean(a_trainc) >= 98 %",
        ),
        of_hashing(
            "... and overhead is reduced as by the run's own.",
            "ours: part of the reduction from PP that the train input's profile reaches: "
            f"{tpp.part_of_reduction('trainc', 'mean(t515c)')} >= 80 %",
        ),
    ),
    notes=(
        "Obvious paths have the counts of the edge profile: those of another input are no counts "
        "of this run. The claim is judged where they are counted.",
        "The paper has edge profiles of the ref input only, as it expects an early stage's to be "
        "representative. A program whose inputs are the same has the same numbers twice.",
    ),
    bars=Bars(("pp", "t515c", "trainc"), "overhead, % of base instructions"),
    originals="tpp2",
)

TABLES = (TPP_PARTS, TPP_LENGTHS, TPP_AGE, TPP_TRAIN)
