"""What exploration knows of a program, in arrays that `exploration_kernel` works on.

By word (`State.at`), by routine (`State.routine`), and lists whose lengths are in `State.counts`.
-1 stands for "none", where nothing else is said. Word indices and routine numbers are those of
`code_image` and `routines`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Table = npt.NDArray[np.int32]

# Rows of `State.at`. In those with (+1), 0 stands for none and 1 for number 0: rows of zeros cost
# no memory where there is no code.
OWNER = 0  # see `routines`
LEADER = 1  # (+1) routine in which a block starts here
ENTRY = 2  # (+1) routine that is entered here
FALL = 3  # (+1) with TAKEN and RETURN: `exploration.Flow`, of the word that ends a block
TAKEN = 4  # (+1)
RETURN = 5  # (+1)
FLAGS = 6
NO_RETURN = 7  # (+1) routine of a call or trap behind which nothing executes
POINT = 8  # where a call that waits for its callee will go on
NEXT_CALL = 9  # (+1) the next call that waits for the same callee
AT_ROWS = 10
# Bits of FLAGS.
HAS_SLOT = 1
SLOT_BLOCK = 2
LEAVES = 4
KNOWN = 8  # where control goes from here has been found
SYMBOL = 16  # a function symbol starts here
DEFERRED = 32  # late code
RETURNS = 64  # a run has shown that the call or trap here returns
REASON = 256  # times why we refuse to follow the transfer: one of `REASONS`
# Columns of `State.routine`.
START, COVERED, RETURNING, LEADERS, FIRST_CALL, LAST_CALL, FIRST_CALLER, LAST_CALLER = range(8)
ROUTINE_COLUMNS = 8
# Words of `State.counts`.
WORK, CALLERS, UNSETTLED, JUMPS, TRAPS, LEFT, ROUTINES, STALE, IS64, COUNTS = range(10)

# Commands (`exploration_kernel.obey`), and what is said of an indirect jump.
BEGIN, FOLLOW_BLOCKS, FOLLOW_JUMP, SETTLE = range(4)
JUMP_RETURNS, JUMP_LEAVES = 1, 2

NOBODY = -1
NO_CODE = -2

# Reasons.
GOES_NOWHERE = 1
SLOT_OUTSIDE = 2
COUPLE = 3
COMPARES = 4

# Kinds of transfers (`simprof.simulator.isa.decode.TransferKind`).
NONE = 0
BRANCH = 1
BRANCH_ALWAYS = 2
BRANCH_NEVER = 3
CALL = 4
INDIRECT_CALL = 5
JUMP = 6
RETURN_JUMP = 7
WINDOW_RETURN = 8
JUMP_AND_LINK = 9
TRAP_ALWAYS = 10
COMPARE_BRANCH = 12
TRAP_RETURN = 13
RETURN_FROM_TRAP = 15


class State(NamedTuple):
    """What exploration knows."""

    # words, kinds, annulled, targets, next_end: the code image: see `code_image.CodeLists`.
    words: npt.NDArray[np.uint32]
    kinds: npt.NDArray[np.uint8]
    annulled: npt.NDArray[np.bool_]
    targets: Table
    next_end: Table
    at: Table  # by OWNER and what follows, then by word
    # By routine: START and what follows. COVERED and RETURNING are 0 or 1, LEADERS is a number;
    # FIRST_CALL and LAST_CALL are calls that wait, FIRST_CALLER and LAST_CALLER rows of `callers`.
    routine: Table
    work: Table  # (word, routine): blocks that are still to be followed
    # (routine that passes control for good, the next row): lists, by the routine entered.
    callers: Table
    # (word, routine, source): control passes to a word, but it is unclear whose that is.
    unsettled: Table
    jumps: Table  # (indirect jump, routine), as they were met
    traps: Table  # (trap that ends the program, routine, word that shows it)
    left: Table  # (word, routine, call): where a call returned outside of its routine
    # The lengths of these lists, then the number of routines, and whether all is `STALE`.
    counts: Numbers


ARRAYS = len(State._fields)
