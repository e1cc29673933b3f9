"""Names that an author of a profiling scheme imports; `docs/SCHEMES.md` walks through one.

simprof's own schemes import nothing else of simprof, but each other:
`from simprof import schemes as s`.

Definition
    `SchemeDefinition` is the scheme, `SchemeCode` the SPARC code of its own actions, `Loss` what it
    can lose; `ProfileKind` says what it collects. `UsageError` refuses what a user asks for.
Options
    `Options` is the structure of a scheme's options: a class whose fields are `SchemeOption`s;
    `choice`, `flag`, `whole_number` and `percentage` declare those of an enum, of a yes or no, of a
    whole number, and of a percentage.
    A planner reads the values that it has for `PlanOrder.options` (`SchemeOptions`, whose values
    are `OptionValue`s). Schemes with code on edges extend `EdgeOptions` (where code goes that would
    need a jump), those that leave registers to the user `RegisterOptions` (`RegisterUse`), planners
    of paths `PathOptions`, and with a path limit of each block `VertexLimitOptions`.
Graph
    `ControlFlowGraph` with `Block` and `Edge` (`EdgeKind`). `depth_first` finds its back edges
    (`DepthFirst`), `live_edges` the edges that ENTRY leads to, `closure` all that is reached from
    somewhere. `contract` merges straight-line blocks (`Contraction`). `remembers_recent` keeps the
    latest results of a function of graphs.
Loops
    `natural_loops` finds all (`Loop`), `natural_loop` that of one entry, `loop_entries` the
    entries; `loop_body` and `exits_of` return what is inside and what leaves. `proper_back_edges`
    are those whose target dominates their source.
Weights and counts
    `heuristic` guesses edge weights, `given_weights` takes what a user gave in its place,
    `measured` makes them of an edge profile. `block_weights` and `block_counts` are sums by block.
Spanning trees
    `maximum_spanning_tree` finds a `SpanningTree` of edges as pairs, `find_tree` of edges in
    columns, `edge_tree` of the routine's own edges (BL94 3.2); `find_root` finds what stands for a
    set of vertices, of sets kept as a forest. `propagate` derives all edge counts from those of
    chords, `solve_tree` does so on any graph: of the counts of some edges (`counts_at`) and of what
    ended early at each vertex (`early_supply`). `rooted_edges` lists a tree from the root on.
Acyclic graph
    `truncated_dag` takes out the back edges (`Dag` of `DagEdge`, in `DagColumns`), and others
    beyond `PATH_LIMIT` or `TOTAL_LIMIT`, which `find_cut_edges` chooses: `path_threshold` is how
    many paths may lead from a vertex, `cuts_at` which edges can be cut there. `make_dag` takes out
    back edges and those that it is given (`NO_EDGES`: none), `thin` keeps some edges of a dag.
Paths and their numbers
    `number` numbers the paths of a dag (`PathNumbering`), in a `SuccessorOrder`; `number_by` does
    it in an order of yours, and `number_by_weight`
    gives small values to heavy edges; `check_samples` decodes and encodes some. `dag_tree` and
    `chord_increments` move the values onto chords (`ChordIncrements`); `number_dag` does all of
    that (`NumberedPaths`), and `number_paths` makes the dag, too. `find_obvious` finds the paths
    whose counts an edge profile determines (`ObviousPaths`). `removed_forest` chooses the removed
    edges that need counters. `bounds`, `least_before` and `sums_within` tell which sums of values
    paths have. `path_record` says where a path leads (`PathRecord`, from `PathStart` to `PathEnd`;
    as blocks and edges alone, `PathPiece`), and `dag_path` finds it in a dag. `EdgeFlow` bounds the
    counts of paths by an edge profile.
Plan
    A planner makes a `Plan` of a `PlanOrder`: `PathCountingPlan` has counters of paths, too,
    `ExactPathPlan` those that all edge counts follow from, `AcyclicPathPlan` those of EPP.
    `plan_paths` plans them as EPP does (`PathPlan`), with a placement of yours if you give one;
    `exact_plan` does its second half, for paths that are numbered otherwise. Its
    `InstrumentationPlan` says which actions are where, and which counters there are
    (`CounterTable`, `Addressing`); `choose_table` chooses by EPP's rule, and `wastes_space` is a
    part of that rule. A `BufferUse` says what it has to do with memory of the whole program that
    the scheme's own code writes (`Buffer`).
Placement
    `counter_plan` puts counters on edges and into blocks. `place` places path instrumentation
    (`Placement`, EPP 3.4), by `choose_steps` (`RegisterSteps`), `step_actions`, which makes them
    actions, and `frontier`, which says how far initialisation moves down and counts move up;
    `Detours` are ways that are not in the dag. `with_edge_counters` adds counters of edges, and
    `instrumentation` makes the plan. `decisions` says which way the next token of a trace leads.
Actions
    `SetRegister`, `AddRegister`, `CountPath`, `CountConstantPath` and `CountEdge` have code
    already; the tracing schemes have that of `WriteTrace` and `WriteAddress`. Others extend
    `Action`, or `Event` where they are no part of an activation: `execute` does to an `Execution`
    what the code does, `register_sum` writes `r + constant`, and `RegisterEffect` says what that
    depends on. A `Guard` decides about an action by a word of the whole program, several times in a
    row in a `Burst`, and `StateScope` says what shares the state of a scheme's code. `NoCode` and
    `Landing` stand in one of two copies of a routine.
Writer
    A `Generator` (`Generators`: by kind of action) writes the code of one kind of action through a
    `Writer`: what it needs (`Needs`, `count_needs`), and which actions have code of one size
    (`shapes`, `count_shape`, of a `CounterAccess`). `PATH_GENERATORS` are those of actions that
    have code already, `STOLEN_GENERATORS` load and store registers stolen from the program;
    `count_path` writes the code of `CountPath`. `asm` makes an `Instruction` (operands: `Register`;
    `fits_simm13` says which numbers may be operands, `simm13` reads one, `AssemblyError` is what
    has no encoding). `CounterLayout` has the addresses of counters (of `COUNTER_SIZE` bytes),
    `MachineKind` is the architecture. `Operands` are an instruction's address, as
    `recorded_operands` names it.
Prices
    A `Pricer` prices a plan in a `RoutineContext`; `find_place` says where the code of an edge goes
    (`Where`).
Run-time routines
    They are lists of `Item`: instructions and `Label`. `save_smallest_frame`, `clear_upper_half`
    and `compare_and_branch` write what many have, `executed` counts what they execute, and
    `SYSTEM_CALL_TRAP` is the trap of system calls. `call_hash` calls the hash table's routine
    (`routine_name`; it changes `HASH_REGISTERS`), whose memory is a `TableLayout`; keys of several
    words (up to `MAX_WORDS`, those behind the first at `KEY_WORDS`) are made by `code_key` and
    taken apart by `key_code`. A buffer is at `buffer_address`, with a counter in each `BufferSlot`
    (of `SLOT_SIZE` bytes); a `StreamBuffer` is written to a file, as symbols of `SYMBOL_BITS` and
    addresses of `TARGET_BITS`. An `OwnTable` keeps path counters as the scheme likes, and is read
    by `ReadMemory`.
Decoder and reading
    `Plan.read` makes a `Reading` of `RoutineCounters` (`UnfinishedPath` among them). Its other
    members have defaults, and plans of schemes that count paths, are guided by a profile or write
    a trace override those of their kind: `PathNames` says what distinguishing paths takes, a
    `LoopLimit` that the paths of a loop are shorter than asked for.
Explanation
    What a plan was made from, for `static` of `simprof explain`: `describe_acyclic`,
    `describe_tree` (with `ROOT_EDGE`), `describe_dummy`; `by_block` and `by_edge` arrange numbers,
    `end_names` names an edge.

These names stay what they are between minor versions of simprof; the modules that they come from
do not.

Examples
--------
The acyclic paths of a routine with a loop, numbered, and the blocks of one of them:

>>> import simprof
>>> from simprof import schemes as s
>>> recovered = simprof.recover("fixtures/bin/v9/bench.elf")
>>> (main,) = (routine for routine in recovered.routines if routine.name == "main")
>>> search = s.depth_first(main)
>>> len(search.back_edges), len(s.natural_loops(main, search))
(1, 1)
>>> dag = s.make_dag(main, search)
>>> numbering = s.number(dag)
>>> numbering.total
7
>>> s.path_record(dag, numbering.decode(3)).blocks
(0, 1, 2, 3, 4)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simprof.profiler.code import shapes as shapes
    from simprof.profiler.code.context import RoutineContext as RoutineContext
    from simprof.profiler.code.counting import executed as executed
    from simprof.profiler.code.frames import Where as Where
    from simprof.profiler.code.hash_routine import KEY_WORDS as KEY_WORDS
    from simprof.profiler.code.hash_routine import MAX_WORDS as MAX_WORDS
    from simprof.profiler.code.hash_routine import TableLayout as TableLayout
    from simprof.profiler.code.hash_routine import code_key as code_key
    from simprof.profiler.code.hash_routine import compare_and_branch as compare_and_branch
    from simprof.profiler.code.hash_routine import key_code as key_code
    from simprof.profiler.code.hash_routine import routine_name as routine_name
    from simprof.profiler.code.layout import COUNTER_SIZE as COUNTER_SIZE
    from simprof.profiler.code.layout import SLOT_SIZE as SLOT_SIZE
    from simprof.profiler.code.layout import BufferSlot as BufferSlot
    from simprof.profiler.code.layout import CounterLayout as CounterLayout
    from simprof.profiler.code.layout import buffer_address as buffer_address
    from simprof.profiler.code.places import find_place as find_place
    from simprof.profiler.code.pricing import Pricer as Pricer
    from simprof.profiler.code.references import Operands as Operands
    from simprof.profiler.code.references import recorded_operands as recorded_operands
    from simprof.profiler.code.registers import clear_upper_half as clear_upper_half
    from simprof.profiler.code.registers import save_smallest_frame as save_smallest_frame
    from simprof.profiler.code.snippet_parts import HASH_REGISTERS as HASH_REGISTERS
    from simprof.profiler.code.snippet_parts import CounterAccess as CounterAccess
    from simprof.profiler.code.snippet_parts import Generator as Generator
    from simprof.profiler.code.snippet_parts import Generators as Generators
    from simprof.profiler.code.snippet_parts import Needs as Needs
    from simprof.profiler.code.snippets_paths import PATH_GENERATORS as PATH_GENERATORS
    from simprof.profiler.code.snippets_paths import call_hash as call_hash
    from simprof.profiler.code.snippets_paths import count_needs as count_needs
    from simprof.profiler.code.snippets_paths import count_path as count_path
    from simprof.profiler.code.snippets_paths import count_shape as count_shape
    from simprof.profiler.code.stolen import STOLEN_GENERATORS as STOLEN_GENERATORS
    from simprof.profiler.code.writer import Writer as Writer
    from simprof.profiler.graphs.cfg import Block as Block
    from simprof.profiler.graphs.cfg import ControlFlowGraph as ControlFlowGraph
    from simprof.profiler.graphs.cfg import Edge as Edge
    from simprof.profiler.graphs.cfg import EdgeKind as EdgeKind
    from simprof.profiler.graphs.cfg import closure as closure
    from simprof.profiler.graphs.cfg import remembers_recent as remembers_recent
    from simprof.profiler.graphs.contraction import Contraction as Contraction
    from simprof.profiler.graphs.contraction import contract as contract
    from simprof.profiler.graphs.dag import NO_EDGES as NO_EDGES
    from simprof.profiler.graphs.dag import Dag as Dag
    from simprof.profiler.graphs.dag import DagColumns as DagColumns
    from simprof.profiler.graphs.dag import DagEdge as DagEdge
    from simprof.profiler.graphs.dag import make_dag as make_dag
    from simprof.profiler.graphs.dag import thin as thin
    from simprof.profiler.graphs.flow import block_counts as block_counts
    from simprof.profiler.graphs.flow import counts_at as counts_at
    from simprof.profiler.graphs.flow import early_supply as early_supply
    from simprof.profiler.graphs.flow import propagate as propagate
    from simprof.profiler.graphs.flow import rooted_edges as rooted_edges
    from simprof.profiler.graphs.flow import solve_tree as solve_tree
    from simprof.profiler.graphs.loops import DepthFirst as DepthFirst
    from simprof.profiler.graphs.loops import Loop as Loop
    from simprof.profiler.graphs.loops import depth_first as depth_first
    from simprof.profiler.graphs.loops import exits_of as exits_of
    from simprof.profiler.graphs.loops import live_edges as live_edges
    from simprof.profiler.graphs.loops import loop_body as loop_body
    from simprof.profiler.graphs.loops import loop_entries as loop_entries
    from simprof.profiler.graphs.loops import natural_loop as natural_loop
    from simprof.profiler.graphs.loops import natural_loops as natural_loops
    from simprof.profiler.graphs.loops import proper_back_edges as proper_back_edges
    from simprof.profiler.graphs.numbering import PATH_LIMIT as PATH_LIMIT
    from simprof.profiler.graphs.numbering import TOTAL_LIMIT as TOTAL_LIMIT
    from simprof.profiler.graphs.numbering import PathNumbering as PathNumbering
    from simprof.profiler.graphs.numbering import SuccessorOrder as SuccessorOrder
    from simprof.profiler.graphs.numbering import bounds as bounds
    from simprof.profiler.graphs.numbering import check_samples as check_samples
    from simprof.profiler.graphs.numbering import cuts_at as cuts_at
    from simprof.profiler.graphs.numbering import find_cut_edges as find_cut_edges
    from simprof.profiler.graphs.numbering import least_before as least_before
    from simprof.profiler.graphs.numbering import number as number
    from simprof.profiler.graphs.numbering import number_by as number_by
    from simprof.profiler.graphs.numbering import number_by_weight as number_by_weight
    from simprof.profiler.graphs.numbering import path_threshold as path_threshold
    from simprof.profiler.graphs.numbering import sums_within as sums_within
    from simprof.profiler.graphs.obvious import ObviousPaths as ObviousPaths
    from simprof.profiler.graphs.obvious import find_obvious as find_obvious
    from simprof.profiler.graphs.paths import NumberedPaths as NumberedPaths
    from simprof.profiler.graphs.paths import PathEnd as PathEnd
    from simprof.profiler.graphs.paths import PathPiece as PathPiece
    from simprof.profiler.graphs.paths import PathRecord as PathRecord
    from simprof.profiler.graphs.paths import PathStart as PathStart
    from simprof.profiler.graphs.paths import dag_path as dag_path
    from simprof.profiler.graphs.paths import dag_tree as dag_tree
    from simprof.profiler.graphs.paths import number_dag as number_dag
    from simprof.profiler.graphs.paths import number_paths as number_paths
    from simprof.profiler.graphs.paths import path_record as path_record
    from simprof.profiler.graphs.paths import removed_forest as removed_forest
    from simprof.profiler.graphs.paths import truncated_dag as truncated_dag
    from simprof.profiler.graphs.spanning import ChordIncrements as ChordIncrements
    from simprof.profiler.graphs.spanning import SpanningTree as SpanningTree
    from simprof.profiler.graphs.spanning import block_weights as block_weights
    from simprof.profiler.graphs.spanning import chord_increments as chord_increments
    from simprof.profiler.graphs.spanning import edge_tree as edge_tree
    from simprof.profiler.graphs.spanning import find_root as find_root
    from simprof.profiler.graphs.spanning import find_tree as find_tree
    from simprof.profiler.graphs.spanning import given_weights as given_weights
    from simprof.profiler.graphs.spanning import heuristic as heuristic
    from simprof.profiler.graphs.spanning import maximum_spanning_tree as maximum_spanning_tree
    from simprof.profiler.graphs.spanning import measured as measured
    from simprof.profiler.plan.actions import Action as Action
    from simprof.profiler.plan.actions import AddRegister as AddRegister
    from simprof.profiler.plan.actions import Burst as Burst
    from simprof.profiler.plan.actions import CountConstantPath as CountConstantPath
    from simprof.profiler.plan.actions import CountEdge as CountEdge
    from simprof.profiler.plan.actions import CountPath as CountPath
    from simprof.profiler.plan.actions import Event as Event
    from simprof.profiler.plan.actions import Execution as Execution
    from simprof.profiler.plan.actions import Guard as Guard
    from simprof.profiler.plan.actions import Landing as Landing
    from simprof.profiler.plan.actions import NoCode as NoCode
    from simprof.profiler.plan.actions import RegisterEffect as RegisterEffect
    from simprof.profiler.plan.actions import SetRegister as SetRegister
    from simprof.profiler.plan.actions import WriteAddress as WriteAddress
    from simprof.profiler.plan.actions import WriteTrace as WriteTrace
    from simprof.profiler.plan.actions import register_sum as register_sum
    from simprof.profiler.plan.decoders import LoopLimit as LoopLimit
    from simprof.profiler.plan.decoders import PathNames as PathNames
    from simprof.profiler.plan.decoders import Plan as Plan
    from simprof.profiler.plan.decoders import Reading as Reading
    from simprof.profiler.plan.decoders import RoutineCounters as RoutineCounters
    from simprof.profiler.plan.decoders import UnfinishedPath as UnfinishedPath
    from simprof.profiler.plan.path_plan import ROOT_EDGE as ROOT_EDGE
    from simprof.profiler.plan.path_plan import AcyclicPathPlan as AcyclicPathPlan
    from simprof.profiler.plan.path_plan import ExactPathPlan as ExactPathPlan
    from simprof.profiler.plan.path_plan import PathCountingPlan as PathCountingPlan
    from simprof.profiler.plan.path_plan import PathPlan as PathPlan
    from simprof.profiler.plan.path_plan import by_block as by_block
    from simprof.profiler.plan.path_plan import by_edge as by_edge
    from simprof.profiler.plan.path_plan import describe_acyclic as describe_acyclic
    from simprof.profiler.plan.path_plan import describe_dummy as describe_dummy
    from simprof.profiler.plan.path_plan import describe_tree as describe_tree
    from simprof.profiler.plan.path_plan import end_names as end_names
    from simprof.profiler.plan.path_plan import exact_plan as exact_plan
    from simprof.profiler.plan.path_plan import plan_paths as plan_paths
    from simprof.profiler.plan.placement import Detours as Detours
    from simprof.profiler.plan.placement import Placement as Placement
    from simprof.profiler.plan.placement import RegisterSteps as RegisterSteps
    from simprof.profiler.plan.placement import choose_steps as choose_steps
    from simprof.profiler.plan.placement import choose_table as choose_table
    from simprof.profiler.plan.placement import counter_plan as counter_plan
    from simprof.profiler.plan.placement import frontier as frontier
    from simprof.profiler.plan.placement import instrumentation as instrumentation
    from simprof.profiler.plan.placement import place as place
    from simprof.profiler.plan.placement import step_actions as step_actions
    from simprof.profiler.plan.placement import wastes_space as wastes_space
    from simprof.profiler.plan.placement import with_edge_counters as with_edge_counters
    from simprof.profiler.plan.plan import SYMBOL_BITS as SYMBOL_BITS
    from simprof.profiler.plan.plan import Addressing as Addressing
    from simprof.profiler.plan.plan import Buffer as Buffer
    from simprof.profiler.plan.plan import BufferUse as BufferUse
    from simprof.profiler.plan.plan import CounterTable as CounterTable
    from simprof.profiler.plan.plan import InstrumentationPlan as InstrumentationPlan
    from simprof.profiler.plan.tracing import TARGET_BITS as TARGET_BITS
    from simprof.profiler.plan.tracing import decisions as decisions
    from simprof.profiler.profiles.edge_flow import EdgeFlow as EdgeFlow
    from simprof.profiler.request.request import OptionValue as OptionValue
    from simprof.profiler.request.request import RegisterUse as RegisterUse
    from simprof.profiler.request.request import SchemeOptions as SchemeOptions
    from simprof.profiler.schemes.definition import EdgeOptions as EdgeOptions
    from simprof.profiler.schemes.definition import Loss as Loss
    from simprof.profiler.schemes.definition import Options as Options
    from simprof.profiler.schemes.definition import OwnTable as OwnTable
    from simprof.profiler.schemes.definition import PathOptions as PathOptions
    from simprof.profiler.schemes.definition import PlanOrder as PlanOrder
    from simprof.profiler.schemes.definition import ProfileKind as ProfileKind
    from simprof.profiler.schemes.definition import ReadMemory as ReadMemory
    from simprof.profiler.schemes.definition import RegisterOptions as RegisterOptions
    from simprof.profiler.schemes.definition import SchemeCode as SchemeCode
    from simprof.profiler.schemes.definition import SchemeDefinition as SchemeDefinition
    from simprof.profiler.schemes.definition import SchemeOption as SchemeOption
    from simprof.profiler.schemes.definition import StateScope as StateScope
    from simprof.profiler.schemes.definition import StreamBuffer as StreamBuffer
    from simprof.profiler.schemes.definition import VertexLimitOptions as VertexLimitOptions
    from simprof.profiler.schemes.definition import choice as choice
    from simprof.profiler.schemes.definition import flag as flag
    from simprof.profiler.schemes.definition import percentage as percentage
    from simprof.profiler.schemes.definition import whole_number as whole_number
    from simprof.simulator.binary.program import MachineKind as MachineKind
    from simprof.simulator.errors import UsageError as UsageError
    from simprof.simulator.isa import assembler
    from simprof.simulator.isa.assembler import AssemblyError as AssemblyError
    from simprof.simulator.isa.assembler import Instruction as Instruction
    from simprof.simulator.isa.assembler import Item as Item
    from simprof.simulator.isa.assembler import Label as Label
    from simprof.simulator.isa.assembler import Register as Register
    from simprof.simulator.isa.assembler import fits_simm13 as fits_simm13
    from simprof.simulator.isa.decode import simm13 as simm13
    from simprof.simulator.isa.sparc import SYSTEM_CALL_TRAP as SYSTEM_CALL_TRAP

    asm = assembler

# Module -> the names that live there
_HOMES = {
    "profiler.code.context": "RoutineContext",
    "profiler.code.counting": "executed",
    "profiler.code.frames": "Where",
    "profiler.code.hash_routine": (
        "KEY_WORDS MAX_WORDS TableLayout code_key compare_and_branch key_code routine_name"
    ),
    "profiler.code.layout": "BufferSlot COUNTER_SIZE CounterLayout SLOT_SIZE buffer_address",
    "profiler.code.places": "find_place",
    "profiler.code.pricing": "Pricer",
    "profiler.code.references": "Operands recorded_operands",
    "profiler.code.registers": "clear_upper_half save_smallest_frame",
    "profiler.code.snippet_parts": "CounterAccess Generator Generators HASH_REGISTERS Needs",
    "profiler.code.snippets_paths": "PATH_GENERATORS call_hash count_needs count_path count_shape",
    "profiler.code.stolen": "STOLEN_GENERATORS",
    "profiler.code.writer": "Writer",
    "profiler.graphs.cfg": "Block ControlFlowGraph Edge EdgeKind closure remembers_recent",
    "profiler.graphs.contraction": "Contraction contract",
    "profiler.graphs.dag": "Dag DagColumns DagEdge NO_EDGES make_dag thin",
    "profiler.graphs.flow": "block_counts counts_at early_supply propagate rooted_edges solve_tree",
    "profiler.graphs.loops": (
        "DepthFirst Loop depth_first exits_of live_edges loop_body loop_entries natural_loop "
        "natural_loops proper_back_edges"
    ),
    "profiler.graphs.numbering": (
        "PATH_LIMIT PathNumbering SuccessorOrder TOTAL_LIMIT bounds check_samples cuts_at "
        "find_cut_edges least_before number number_by number_by_weight path_threshold sums_within"
    ),
    "profiler.graphs.obvious": "ObviousPaths find_obvious",
    "profiler.graphs.paths": (
        "NumberedPaths PathEnd PathPiece PathRecord PathStart dag_path dag_tree number_dag "
        "number_paths path_record removed_forest truncated_dag"
    ),
    "profiler.graphs.spanning": (
        "ChordIncrements SpanningTree block_weights chord_increments edge_tree find_root "
        "find_tree given_weights heuristic maximum_spanning_tree measured"
    ),
    "profiler.plan.actions": (
        "Action AddRegister Burst CountConstantPath CountEdge CountPath Event Execution Guard "
        "Landing NoCode RegisterEffect SetRegister WriteAddress WriteTrace register_sum"
    ),
    "profiler.plan.decoders": "LoopLimit PathNames Plan Reading RoutineCounters UnfinishedPath",
    "profiler.plan.path_plan": (
        "AcyclicPathPlan ExactPathPlan PathCountingPlan PathPlan ROOT_EDGE by_block by_edge "
        "describe_acyclic describe_dummy describe_tree end_names exact_plan plan_paths"
    ),
    "profiler.plan.placement": (
        "Detours Placement RegisterSteps choose_steps choose_table counter_plan frontier "
        "instrumentation place step_actions wastes_space with_edge_counters"
    ),
    "profiler.plan.plan": (
        "Addressing Buffer BufferUse CounterTable InstrumentationPlan SYMBOL_BITS"
    ),
    "profiler.plan.tracing": "TARGET_BITS decisions",
    "profiler.profiles.edge_flow": "EdgeFlow",
    "profiler.request.request": "OptionValue RegisterUse SchemeOptions",
    "profiler.schemes.definition": (
        "EdgeOptions Loss Options OwnTable PathOptions PlanOrder ProfileKind ReadMemory "
        "RegisterOptions SchemeCode SchemeDefinition SchemeOption StateScope StreamBuffer "
        "VertexLimitOptions choice flag percentage whole_number"
    ),
    "simulator.binary.program": "MachineKind",
    "simulator.errors": "UsageError",
    "simulator.isa.assembler": "AssemblyError Instruction Item Label Register fits_simm13",
    "simulator.isa.decode": "simm13",
    "simulator.isa.sparc": "SYSTEM_CALL_TRAP",
}
_PLACES = {name: home for home, names in _HOMES.items() for name in names.split()}
_MODULES = {"asm": "simulator.isa.assembler", "shapes": "profiler.code.shapes"}


if not TYPE_CHECKING:  # Type checkers know the imports above, and no other name
    __all__ = [*_PLACES, *_MODULES]

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used.

        Command lines read definitions of schemes, and start without what only code generation
        needs.
        """
        if name in _MODULES:
            value = import_module(f"simprof.{_MODULES[name]}")
        elif name in _PLACES:
            value = getattr(import_module(f"simprof.{_PLACES[name]}"), name)
        else:
            raise AttributeError(f"module 'simprof.schemes' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names."""
    return [*_PLACES, *_MODULES]
