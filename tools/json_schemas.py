#!/usr/bin/env python3
"""Write the JSON Schemas of simprof's JSON documents: simprof/schemas/FORMAT.json.

    tools/json_schemas.py            write them
    tools/json_schemas.py --check    say which are not as they would be

Rows of tables are made from their columns (`profiles.tables`), versions are those of
`profiles.documents`; all else is declared here. Keys that are not listed are allowed: a reader of
version N reads what a later simprof adds to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from simprof.profiler.profiles.documents import VERSIONS
from simprof.profiler.profiles.measures import MEASURES
from simprof.profiler.profiles.tables import COLUMNS, ColumnKind, DataColumn
from tools.generated_files import ROOT, run

Schema = dict[str, Any]
DIRECTORY = ROOT / "simprof" / "schemas"

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
ADDRESS: Schema = {"type": "string", "pattern": "^0x[0-9a-f]+$"}
DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
ANY: Schema = {}
PAIR: Schema = {"type": "array", "items": WHOLE, "minItems": 2, "maxItems": 2}


def or_null(schema: Schema) -> Schema:
    """Return the schema of a value that may be null."""
    return {**schema, "type": [schema["type"], "null"]}


def each(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def table(values: Schema) -> Schema:
    """Return the schema of an object whose keys are names."""
    return {"type": "object", "additionalProperties": values}


def thing(keys: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """Return the schema of an object with some keys that it must have, and others."""
    return {
        "type": "object",
        "required": list(keys),
        "properties": {**keys, **(optional or {})},
    }


# A claim of a paper, its verdict, and the conditions behind it
CLAIM: Schema = thing(
    {
        "text": TEXT,
        "verdict": {"enum": ["holds", "fails", "too few programs", "not testable here"]},
        "figure": TEXT,
        "why": TEXT,
        "programs": COUNT,
        "conditions": each(
            thing(
                {
                    "what": TEXT,
                    "value": or_null(NUMBER),
                    "relation": {"enum": ["above", "at least", "below", "at most", "within"]},
                    "least": or_null(NUMBER),
                    "most": or_null(NUMBER),
                    "unit": TEXT,
                    "against": TEXT,
                    "whose": {"enum": ["paper", "ours"]},
                    "holds": FLAG,
                    "distance": or_null(NUMBER),
                    "programs": COUNT,
                }
            )
        ),
    }
)
KINDS: Mapping[ColumnKind, Schema] = {
    ColumnKind.WHOLE: WHOLE,
    ColumnKind.LONG: WHOLE,
    ColumnKind.NUMBER: NUMBER,
    ColumnKind.TEXT: TEXT,
    ColumnKind.FLAG: FLAG,
    ColumnKind.ADDRESS: ADDRESS,
    ColumnKind.BLOCK: TEXT,
    ColumnKind.BLOCKS: each(TEXT),
    ColumnKind.LINES: each(TEXT),
    ColumnKind.POSITIONS: each(COUNT),
}
ALWAYS_KNOWN = (
    "routine", "symbol", "routine_address", "entered", "executions", "added", "source", "target",
    "block", "kind", "partial", "inferred", "shortened", "instrumented",
)  # fmt: skip


def column(each_column: DataColumn) -> Schema:
    """Return the schema of a column's values."""
    kind = KINDS[each_column.kind]
    schema = kind if each_column.name in ALWAYS_KNOWN else or_null(kind)
    return {**schema, "description": each_column.meaning}


def rows(name: str) -> Schema:
    """Return the schema of the rows of a table; of graphs blocks without costs are there, too."""
    return each(thing({each_column.name: column(each_column) for each_column in COLUMNS[name]}))


PROGRAM = thing(
    {
        "file": TEXT,
        "sha256": DIGEST,
        "machine": or_null(TEXT),
    },
    {
        "arguments": each(TEXT),
        "routines": COUNT,
        "modules": each(thing({"bias": ADDRESS, "file": TEXT, "sha256": DIGEST})),
    },
)
PLACE: Mapping[str, Schema] = {
    "routine": or_null(TEXT),
    "offset": WHOLE,
    "file": or_null(TEXT),
    "line": or_null(WHOLE),
}
EXIT = thing(
    {
        "status": WHOLE,
        "reason": {"enum": ["exit", "signal", "fault", "budget", "timeout", "refused", "deadlock"]},
    },
    {
        "signal": WHOLE,
        "fault": thing(
            {"name": TEXT, "pc": ADDRESS, "address": or_null(ADDRESS), "description": TEXT, **PLACE}
        ),
        "refusal": thing({"name": TEXT, "pc": ADDRESS, **PLACE}),
        "waits": each(thing({"thread": WHOLE, "name": TEXT, "pc": ADDRESS, **PLACE})),
    },
)
REFUSED = each(thing({"name": TEXT, "error": TEXT, "count": COUNT}))
COSTS = thing({"instructions": COUNT, "added": COUNT})
CALL_TREE = thing(
    {
        "limit": COUNT,
        "beyond": COUNT,
        "routines": each(
            thing(
                {
                    "symbol": TEXT,
                    "routine_address": ADDRESS,
                    "calls": COUNT,
                    "landings": COUNT,
                    "own": COSTS,
                    "inclusive": COSTS,
                }
            )
        ),
        "calls": each(
            thing(
                {
                    "caller": or_null(COUNT),
                    "site": TEXT,
                    "callee": COUNT,
                    "calls": COUNT,
                    "inclusive": COSTS,
                }
            )
        ),
        "contexts": each(
            thing(
                {
                    "parent": or_null(COUNT),
                    "caller": or_null(COUNT),
                    "site": TEXT,
                    "routine": COUNT,
                    "calls": COUNT,
                    "landings": COUNT,
                    "own": COSTS,
                    "inclusive": COSTS,
                }
            )
        ),
    }
)
HEAD: Mapping[str, Schema] = {
    "measured_by": or_null(thing({"simprof": TEXT, "cost_model": TEXT})),
    "program": PROGRAM,
    "input_sha256": or_null(DIGEST),
}
SETTING: Mapping[str, Schema] = {
    "mode": TEXT,
    "options": table(ANY),
    "edge_profile_sha256": or_null(DIGEST),
}
SUMMARY: Mapping[str, Schema] = {
    **HEAD,
    **SETTING,
    "exit": EXIT,
    "partial": FLAG,
    "warnings": each(TEXT),
    "instructions": thing({"base": COUNT, "added": COUNT}),
    "overhead": NUMBER,
    "counts": table(COUNT),
    "sizes": table(COUNT),
    "routines": rows("routines"),
}
ATTRIBUTION = thing({"overcount": NUMBER, "undercount": NUMBER, "attributed": NUMBER})
# A share that is null where nothing was executed that it could be of
QUALITY = thing(
    {
        "truth": TEXT,
        **{name: or_null(NUMBER) for name in MEASURES},
        "hot_paths": COUNT,
        "hot": NUMBER,
        "flow": {"enum": ["unit", "branch", "block"]},
    }
)
OF_SOME_RUNS: Mapping[str, Schema] = {
    "lost": table(COUNT),
    "refused_calls": REFUSED,
    "guide": thing(
        {
            "file": or_null(TEXT),
            "sha256": or_null(DIGEST),
            "same_run": FLAG,
            "mode": or_null(TEXT),
            "added": or_null(COUNT),
            "overhead": or_null(NUMBER),
        }
    ),
    "threads": each(thing({"thread": WHOLE, "instructions": COUNT})),
    "runs": COUNT,
    "call_tree": CALL_TREE,
    "attribution": ATTRIBUTION,
    "quality": QUALITY,
    "edge_quality": QUALITY,
}


def listing(name: str) -> Schema:
    """Return the schema of a table that `show` lists."""
    return thing({**HEAD, **SETTING, "left_out": COUNT, name: rows(name)})


CHANGE = each(
    thing({"symbol": TEXT, "steps": each(TEXT), "kind": TEXT, "executions": PAIR}),
)
SIDE = thing({**HEAD, **SETTING})
FORMATS: Mapping[str, Schema] = {
    "run": thing(
        {**SUMMARY, "edges": rows("edges")},
        {
            **OF_SOME_RUNS,
            "paths": rows("paths"),
            "blocks": rows("blocks"),
            # Of graph files.
            "static": table(ANY),
            "definite_flow": table(NUMBER),
            "all_paths": each(
                thing(
                    {
                        "path": WHOLE,
                        "start": TEXT,
                        "end": TEXT,
                        "blocks": each(TEXT),
                        "edges": each(COUNT),
                    }
                )
            ),
        },
    ),
    "compare": thing(
        {
            **HEAD,
            "exit": EXIT,
            "partial": FLAG,
            "instructions": thing({"base": COUNT}),
            "emulations": COUNT,
            "whole_emulations": COUNT,
            "refused_calls": REFUSED,
            "modes": table(thing(SUMMARY, OF_SOME_RUNS)),
        },
        {"not_measured": table(TEXT)},
    ),
    "routines": listing("routines"),
    "edges": listing("edges"),
    "paths": listing("paths"),
    "source": thing(
        {
            **HEAD,
            **SETTING,
            "notes": each(TEXT),
            "files": each(
                thing(
                    {
                        "file": TEXT,
                        "lines": each(
                            thing(
                                {
                                    "line": COUNT,
                                    "executions": COUNT,
                                    "instructions": COUNT,
                                    "added": COUNT,
                                    "code": TEXT,
                                    "branches": each(
                                        thing(
                                            {"address": ADDRESS, "taken": COUNT, "not_taken": COUNT}
                                        )
                                    ),
                                    "source": or_null(TEXT),
                                }
                            )
                        ),
                        "inlined": each(
                            thing({"name": TEXT, "address": ADDRESS, "executions": COUNT})
                        ),
                    }
                )
            ),
            "routines": each(
                thing(
                    {
                        "symbol": TEXT,
                        "routine_address": ADDRESS,
                        "entered": COUNT,
                        "instructions": COUNT,
                        "added": COUNT,
                        "unplaced": COUNT,
                        "code": each(
                            thing(
                                {
                                    "address": ADDRESS,
                                    "instruction": or_null(TEXT),
                                    "executions": COUNT,
                                    "added": COUNT,
                                    "file": or_null(TEXT),
                                    "line": or_null(COUNT),
                                },
                                {"taken": COUNT, "not_taken": COUNT},
                            )
                        ),
                    }
                )
            ),
        }
    ),
    "tree": thing(
        {
            **HEAD,
            **SETTING,
            "beyond": COUNT,
            "contexts": each(
                thing(
                    {
                        "depth": COUNT,
                        "routine": TEXT,
                        "symbol": TEXT,
                        "routine_address": ADDRESS,
                        "calls": COUNT,
                        "inclusive_instructions": COUNT,
                        "inclusive_added": COUNT,
                        "own_instructions": COUNT,
                        "own_added": COUNT,
                    }
                )
            ),
        }
    ),
    "diff": thing(
        {
            "before": SIDE,
            "after": SIDE,
            "same_program": FLAG,
            "instructions": thing({"base": PAIR, "added": PAIR}),
            "routines": each(
                thing(
                    {
                        "symbol": TEXT,
                        "side": {"enum": ["before", "after", "both"]},
                        "entered": PAIR,
                        "instructions": PAIR,
                        "added": PAIR,
                    }
                )
            ),
            "edges": CHANGE,
            "paths": CHANGE,
        },
        {"quality": thing({"truth": TEXT}, {"before": QUALITY, "after": QUALITY})},
    ),
    "cfg": thing(
        {
            "program": PROGRAM,
            "routines": each(
                thing(
                    {
                        "symbol": TEXT,
                        "routine_address": ADDRESS,
                        "size": COUNT,
                        "blocks": each(thing({"block": TEXT, "instructions": COUNT})),
                        "edges": each(thing({"source": TEXT, "target": TEXT, "kind": TEXT})),
                        "unresolved_jumps": each(ADDRESS),
                        "no_return_calls": each(ADDRESS),
                        "irregular": each(thing({"address": ADDRESS, "reason": TEXT})),
                    }
                )
            ),
        }
    ),
    "read": thing(
        {
            **HEAD,
            **SETTING,
            "blocks": COUNT,
            "transfers": COUNT,
            "instructions": COUNT,
            "trace_bits": COUNT,
            "events": COUNT,
            "complete": FLAG,
            "checked": FLAG,
            "problem": or_null(TEXT),
            "position": thing({"block": or_null(TEXT), "routine": or_null(TEXT)}),
        },
        {
            "call_paths": thing(
                {
                    "potential": COUNT,
                    "executed": COUNT,
                    "activations": COUNT,
                    "paths": each(
                        thing({"routines": each(TEXT), "number": or_null(COUNT), "entered": COUNT})
                    ),
                }
            )
        },
    ),
    "subpaths": thing(
        {
            **HEAD,
            **SETTING,
            "symbols": COUNT,
            "different_symbols": COUNT,
            "trace_bytes": COUNT,
            "zstd_bytes": COUNT,
            "rules": COUNT,
            "grammar_symbols": COUNT,
            "grammar_bytes": COUNT,
            "instructions": COUNT,
            "longest": COUNT,
            "threshold": NUMBER,
            "hot_subpaths": COUNT,
            "subpaths": each(
                thing(
                    {
                        "occurrences": COUNT,
                        "instructions": COUNT,
                        "paths": each(
                            thing({"routine": TEXT, "path": COUNT, "blocks": each(TEXT)})
                        ),
                    }
                )
            ),
        }
    ),
    "instrument": thing(
        {
            **HEAD,
            **SETTING,
            "output": TEXT,
            "routines": COUNT,
            "routines_left": each(thing({"routine": TEXT, "reason": TEXT})),
            "segment": thing({"address": ADDRESS, "bytes": COUNT}),
            "counter_bytes": COUNT,
            "tables": COUNT,
            "application_registers": each(TEXT),
        }
    ),
    "verify": thing(
        {
            **HEAD,
            "exit": EXIT,
            "passed": FLAG,
            "not_run": table(TEXT),
            "modes": table(
                thing(
                    {
                        **SETTING,
                        "base": COUNT,
                        "added": COUNT,
                        "rewriting": table(WHOLE),
                        "predicted": or_null(COUNT),
                        "executed": table(or_null(COUNT)),
                        "output_equal": or_null(FLAG),
                        "counters_equal": or_null(FLAG),
                        "routines_left": each(thing({"routine": TEXT, "reason": TEXT})),
                        "differences": each(TEXT),
                        "not_compared": each(TEXT),
                    }
                )
            ),
        }
    ),
    "regress": thing(
        {
            "measured_by": HEAD["measured_by"],
            "baseline": TEXT,
            "status": WHOLE,
            "summary": ANY,
            "runs": each(thing({"name": TEXT, "state": TEXT, "error": or_null(TEXT)})),
        }
    ),
    "tables": thing(
        {
            "suite": TEXT,
            "title": TEXT,
            "cost_model": TEXT,
            "programs": each(
                thing(
                    {
                        "name": TEXT,
                        "build": TEXT,
                        "input": TEXT,
                        "sha256": or_null(DIGEST),
                        "input_sha256": or_null(DIGEST),
                    }
                )
            ),
            "tables": each(
                thing(
                    {
                        "name": TEXT,
                        "title": TEXT,
                        "rows": each(
                            thing({"kind": TEXT, "group": TEXT, "original": TEXT, "judged": FLAG})
                        ),
                        "likeness": each(
                            thing(
                                {
                                    "column": TEXT,
                                    "count": COUNT,
                                    "rank_correlation": or_null(NUMBER),
                                    "words": TEXT,
                                }
                            )
                        ),
                        "claims": each(CLAIM),
                    }
                )
            ),
            "failures": each(thing({"program": TEXT, "error": TEXT})),
        }
    ),
    "doctor": thing(
        {
            "ok": FLAG,
            "checks": each(
                thing(
                    {
                        "name": TEXT,
                        "ok": FLAG,
                        "required": FLAG,
                        "detail": TEXT,
                        "remedy": or_null(TEXT),
                    }
                )
            ),
        }
    ),
}


def schema(name: str) -> Schema:
    """Return the schema of the documents of a format."""
    content = FORMATS[name]
    head = {
        "format": {"const": f"simprof/{name}"},
        "version": {"const": VERSIONS[name]},
        "simprof": {**TEXT, "description": "the version of simprof that wrote this"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"simprof/{name}, version {VERSIONS[name]}",
        "type": "object",
        "required": [*head, *content["required"]],
        "properties": {**head, **content["properties"]},
    }


def main() -> int:
    """Write the files, or check them."""
    wanted = {
        DIRECTORY / f"{name}.json": json.dumps(schema(name), indent=1) + "\n" for name in VERSIONS
    }
    return run(__doc__, wanted, DIRECTORY.glob("*.json"))


if __name__ == "__main__":
    raise SystemExit(main())
