"""The hook that the emulator calls in front of every block: events, and the operations they take.

Imports the kernels only, whose module says what the words are.

Steps
-----
`advance` handles one event: budget, successor lookup, then `execute`. `block_hook` is the same as
a C function for `uc_hook_add`; what `advance` cannot do alone goes through the `SLOW_CALLBACK`
pointer to Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simprof.profiler.engine import kernels
from simprof.profiler.engine.kernels import (
    bump,
    c_function,
    call_part,
    count_in_table,
    count_known,
    end_segment,
    ended_known,
    get,
    hook_part,
    inline,
    jit,
    put,
    set_register,
    spilled,
    stack_pointer,
    write_trace,
)
from simprof.simulator.cpu import compiled

_types, ir = compiled.types, compiled.ir
_WORD = ir.IntType(64)
_PART = (_types.int64, _types.int64, _types.int64)
_intrinsic: Callable[[Any], Any] = compiled.intrinsic

if kernels.PLAIN:

    def learnt(k: int, address: int, size: int) -> int:
        """Nothing: Python learns transitions by itself (`native_walk`)."""
        return 0

    def land(k: int, operation: int, address: int) -> int:
        """`landing_kernel.land`; -1, nothing done, before that is loaded."""
        return (
            kernels.PLAIN_PARTS[kernels.LAND_PART](k, operation, address)
            if get(k, kernels.LAND_PART)
            else -1
        )

else:

    @_intrinsic
    def _call_for_word(context: Any, function: Any, k: Any, a: Any, b: Any) -> Any:
        """Call int64 function(int64, int64, int64) by its address."""
        return compiled.call_at(_types.int64, *_PART, result=_types.int64)

    @inline
    def learnt(k: int, address: int, size: int) -> int:
        """`walk_kernel.learn_part`."""
        return _call_for_word(get(k, kernels.LEARN_PART), k, address, size)  # type: ignore[no-any-return]

    @inline
    def land(k: int, operation: int, address: int) -> int:
        """`landing_kernel.land`; -1, nothing done, before that is loaded."""
        part = get(k, kernels.LAND_PART)
        return -1 if part == 0 else _call_for_word(part, k, operation, address)


@inline
def push(k: int, return_address: int) -> bool:
    """Push the frame of a call; False where there is no room for it."""
    offset = get(k, kernels.FRAME) + kernels.STRIDE
    if offset + kernels.STRIDE > get(k, kernels.FRAME_LIMIT):
        return False
    put(k, kernels.FRAME, offset)
    frame = get(k, kernels.FRAMES_POINTER) + 8 * offset
    put(frame, kernels.FRAME_RETURN, return_address)
    put(frame, kernels.FRAME_STACK, stack_pointer(k))
    put(frame, kernels.FRAME_SEGMENTS, 0)
    return True


@inline
def returns(k: int, frame: int, address: int) -> bool:
    """Whether the activation at `frame` has come to its caller at `address`."""
    # An exception may leave a recursive routine for the same one further up, at the very place that
    # the call which unwinds would return to. The stack pointer tells.
    if get(frame, kernels.FRAME_RETURN) != address:
        return False
    return get(frame, kernels.FRAME_STACK) == stack_pointer(k)


@inline
def guarded(k: int, at: int) -> int:
    """Execute the GUARD operation at address `at`; return its flag if it lets pass, else 0."""
    word, burst = get(at, 1) & 0xFF, get(at, 1) >> kernels.BURST_SHIFT
    left = get(k, word) - 1
    if left > 0:
        put(k, word, left)
        return 0
    next_one = get(at, 2)
    if burst != 0:
        interval, rest = next_one & 0xFFFFFFFF, next_one >> kernels.BURST_SHIFT
        taken = get(k, burst) + 1
        next_one = rest & (kernels.BURST_LIMIT - 1)
        if taken >= rest >> kernels.STRIDE_BITS:
            taken, next_one = 0, interval
        put(k, burst, taken)
    put(k, word, next_one)
    return get(at, 0) >> kernels.TABLE_SHIFT


@inline
def window_lacks(k: int, place: int) -> bool:
    """Whether a window must be moved; `place` is CAN_SAVE or CAN_RESTORE."""
    return get(get(k, place), 0) & 0xFFFFFFFF == 0


@inline
def move_window(k: int, place: int) -> None:
    """Move a window; `place` is CAN_SAVE or CAN_RESTORE."""
    fills = place == kernels.CAN_RESTORE
    call_part(get(k, kernels.WINDOW_MOVER), get(k, kernels.TRAP_WORDS), fills, 0)


@inline
def follow(k: int, address: int, size: int) -> tuple[bool, int]:
    """Whether the current state's row has the successor by this event, and its address."""
    row = get(k, kernels.ROWS_POINTER) + get(k, kernels.STATE)
    key = address | (size << 48)
    is_known = True
    if get(row, kernels.KEY) != key:
        row += 8 * kernels.SUCCESSOR
        is_known = get(row, kernels.KEY) == key
    return is_known, row


@inline
def take(k: int, successor: int, instructions: int) -> int:
    """Count the successor at this address and enter its state; return its operation."""
    # `instructions`: how many have been executed, those of silent blocks on the way not included.
    put(successor, kernels.COUNT_OF, get(successor, kernels.COUNT_OF) + 1)
    follows = get(successor, kernels.NEXT)
    put(k, kernels.STATE, follows & ((1 << kernels.PASSED_SHIFT) - 1))
    put(k, kernels.INSTRUCTIONS, instructions + (follows >> kernels.PASSED_SHIFT))
    return get(successor, kernels.ACTION)


@inline
def single(k: int, operation: int) -> bool:
    """Execute operation number `operation` if it stands alone and does what most do."""
    at = get(k, kernels.OPERATIONS_POINTER) + 8 * kernels.OPERATION * operation
    code = get(at, 0)
    frame = get(k, kernels.FRAMES_POINTER) + 8 * get(k, kernels.FRAME)
    if code == kernels.ADD | kernels.LAST:
        put(frame, kernels.FRAME_PATH, get(frame, kernels.FRAME_PATH) + get(at, 1))
        return True
    if code == kernels.SEGMENT | kernels.LAST:
        return ended_known(k, frame, at, 1, False)
    return False


@inline
def pushed(k: int, at: int) -> bool:
    """Execute the CALL operation at address `at`, unless a window must be moved."""
    place = get(at, 2)
    if place != 0 and window_lacks(k, place):
        return False
    return push(k, get(at, 1))


@inline
def popped(k: int, at: int, frame: int, address: int) -> bool:
    """Execute the RETURN operation at address `at`, unless a window must be moved."""
    # False also where control has not come to the caller of the activation at `frame`.
    place = get(at, 1)
    if not returns(k, frame, address) or (place != 0 and window_lacks(k, place)):
        return False
    put(k, kernels.FRAME, get(k, kernels.FRAME) - kernels.STRIDE)
    return True


@inline
def windowed(k: int, code: int, at: int, frame: int, address: int) -> bool:
    """Execute the operation at address `at` if it is one with a window that need not be moved."""
    if code == kernels.CALL:
        return pushed(k, at)
    if code == kernels.RETURN:
        return popped(k, at, frame, address)
    if code == kernels.ADD_WINDOW:
        if window_lacks(k, get(at, 2)):
            return False
        put(frame, kernels.FRAME_PATH, get(frame, kernels.FRAME_PATH) + get(at, 1))
        return True
    return code == kernels.WINDOW and not window_lacks(k, get(at, 1))


@inline
def short(k: int, operation: int) -> bool:
    """Execute operation number `operation` if it stands alone and takes no call of anything."""
    at = get(k, kernels.OPERATIONS_POINTER) + 8 * kernels.OPERATION * operation
    word = get(at, 0)
    if word & kernels.LAST == 0:
        return False
    frame = get(k, kernels.FRAMES_POINTER) + 8 * get(k, kernels.FRAME)
    return windowed(k, word & 0xFF, at, frame, get(k, kernels.BLOCK_ADDRESS))


@inline
def quick(k: int, operation: int, address: int, times: int) -> int:
    """Execute operations from number `operation` as long as they take no call of anything."""
    # `times`: how often segments that end are counted.
    # Return the number of the first that does, 0 if none is left: `execute` goes on from there.
    at = get(k, kernels.OPERATIONS_POINTER) + 8 * kernels.OPERATION * operation
    frame = get(k, kernels.FRAMES_POINTER) + 8 * get(k, kernels.FRAME)
    while True:
        word = get(at, 0)
        code = word & 0xFF
        if code == kernels.SEGMENT:
            if not ended_known(k, frame, at, times, True):
                return operation
        elif code in (kernels.BEGIN, kernels.ADD):
            set_register(code, frame, at)
        elif code == kernels.GUARD:
            put(frame, kernels.FRAME_PATH, get(frame, kernels.FRAME_PATH) + guarded(k, at))
        elif code == kernels.HASH:
            if not count_known(k, at):
                return operation
        elif not windowed(k, code, at, frame, address):
            return operation
        elif code == kernels.CALL:
            frame += 8 * kernels.STRIDE
        elif code == kernels.RETURN:
            frame -= 8 * kernels.STRIDE
        if word & kernels.LAST:
            return 0
        at += 8 * kernels.OPERATION
        operation += 1


@inline
def slow(k: int, at: int, address: int, times: int) -> int:
    """Execute the operation at address `at`, which `quick` has left; return a status."""
    code = get(at, 0) & 0xFF
    frame = get(k, kernels.FRAMES_POINTER) + 8 * get(k, kernels.FRAME)
    if code == kernels.SEGMENT:
        return end_segment(k, frame, at, times)
    if code == kernels.SLOW:
        return kernels.DECIDE
    if code >= kernels.CROSS:
        return write_trace(k, at)
    if code == kernels.HASH:
        if get(k, kernels.NODES) >= get(k, kernels.NODE_LIMIT):
            return kernels.NO_NODES
        count_in_table(k, at)
        return kernels.OK
    window = 1  # word of the operation that says which window is moved
    if code == kernels.CALL:
        if not push(k, get(at, 1)):
            return kernels.TOO_DEEP
        window = 2
    elif code == kernels.RETURN:
        if not returns(k, frame, address):
            return kernels.MISMATCH
        bump(k, kernels.FRAME, -kernels.STRIDE)
    elif code == kernels.ADD_WINDOW:
        bump(frame, kernels.FRAME_PATH, get(at, 1))
        window = 2
    move_window(k, get(at, window))
    return kernels.OK


@jit
def execute(k: int, operation: int, address: int, times: int = 1) -> int:
    """Execute operations from number `operation` until one is the last; return a status."""
    # `times`: how often segments that end are counted.
    while True:
        operation = quick(k, operation, address, times)
        if operation == 0:
            return kernels.OK
        at = get(k, kernels.OPERATIONS_POINTER) + 8 * kernels.OPERATION * operation
        status = slow(k, at, address, times)
        if kernels.MISMATCH <= status <= kernels.DECIDE:
            rest = land(k, operation, address)
            if rest == 0:
                return kernels.OK
            if rest > 0:
                operation = rest
                continue
        if status != kernels.OK:
            put(k, kernels.FAILED_OPERATION, operation)
            return status
        if get(at, 0) & kernels.LAST:
            return kernels.OK
        operation += 1


@jit
def search(k: int, address: int, size: int) -> int:
    """Handle an event whose successor is not in its state's row; return a status."""
    state = get(k, kernels.STATE)
    if (
        state == kernels.RESUME
        and address == get(k, kernels.RESUME_PC)
        and address + size == get(k, kernels.RESUME_END)
    ):
        put(k, kernels.STATE, get(k, kernels.RESUMED_STATE))
        return kernels.OK
    successor = spilled(k, state, address | (size << 48))
    if successor == 0:
        successor = learnt(k, address, size)
    if successor == 0:
        return kernels.MISS
    operation = take(k, successor, get(k, kernels.INSTRUCTIONS))
    return kernels.OK if operation == 0 else execute(k, operation, address)


@jit
def advance(k: int, address: int, size: int) -> int:
    """Handle one block event; return a status."""
    is_known, successor = follow(k, address, size)
    if not is_known:
        return search(k, address, size)
    operation = take(k, successor, get(k, kernels.INSTRUCTIONS))
    return kernels.OK if operation == 0 else execute(k, operation, address)


if not kernels.PLAIN:

    @_intrinsic
    def _call_stop(context: Any, function: Any, engine: Any) -> Any:
        """Call int function(void *) by its address."""
        return compiled.call_at(_types.int64, _types.int64, result=_types.int32)

    @hook_part
    def search_hook(k: int, address: int, size: int) -> None:
        """The part of `block_hook` for events that its row does not hold."""
        status = search(k, address, size)
        if status != kernels.OK:
            call_part(get(k, kernels.SLOW_CALLBACK), status, address, size)

    @hook_part
    def budget_hook(k: int, address: int, size: int) -> None:
        """The part of `block_hook` for a spent budget: stop where the engine can, else go on."""
        if get(get(k, kernels.NPC_POINTER), 0) == address + 4:
            put(k, kernels.STOPPED, 1)
            _call_stop(get(k, kernels.STOP_FUNCTION), get(k, kernels.ENGINE))
            return
        bump(k, kernels.INSTRUCTIONS, size >> 2)
        put(k, kernels.BLOCK_ADDRESS, address)
        put(k, kernels.BLOCK_SIZE, size)
        status = advance(k, address, size)
        if status != kernels.OK:
            call_part(get(k, kernels.SLOW_CALLBACK), status, address, size)

    @_intrinsic
    def _inline_me(context: Any) -> Any:
        """Have LLVM inline the function that calls this wherever it is called."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.function.attributes.add("alwaysinline")
            return context.get_dummy_value()

        return _types.void(), generate

    def _native(name: str, body: Any, order: tuple[int, int, int], widths: list[int]) -> Any:
        """Make an intrinsic that returns the address of C function `name`, `body` inlined."""
        # `widths` are the bits of its arguments; those in `order` go to `body`, widened. numba's
        # own wrapper for C callbacks costs as much again as what it wraps here.

        @_intrinsic
        def address(context: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                kind = ir.FunctionType(ir.VoidType(), [ir.IntType(width) for width in widths])
                function = ir.Function(builder.module, kind, name)
                inside = ir.IRBuilder(function.append_basic_block())
                words = _types.void(_types.int64, _types.int64, _types.int64)
                code = context.compile_subroutine(inside, body, words)
                given = [inside.zext(function.args[place], _WORD) for place in order]
                context.call_internal_no_propagate(inside, code.fndesc, words, given)
                inside.ret_void()
                return builder.ptrtoint(function, _WORD)

            return _types.int64(), generate

        return address

    def _on_operations(k: int, operation: int, unused: int) -> None:
        """`execute`, for `block_hook`, which need not keep the event's address for it."""
        _inline_me()
        if not short(k, operation):
            call_part(get(k, kernels.QUICK_PART), k, operation, 0)

    def _on_list(k: int, operation: int, unused: int) -> None:
        """`execute`, for what `_on_operations` leaves."""
        _inline_me()
        address = get(k, kernels.BLOCK_ADDRESS)
        rest = quick(k, operation, address, 1)
        if rest != 0:
            call_part(get(k, kernels.EXECUTE_PART), k, rest, address)

    def _on_block(k: int, address: int, size: int) -> None:
        """`advance`, for `block_hook`."""
        # Only what nearly every event needs is here: a call of anything larger makes the compiler
        # save registers at every event (measured: 6 ns an event against 3).
        _inline_me()
        total = get(k, kernels.INSTRUCTIONS) + (size >> 2)
        if total > get(k, kernels.LIMIT):
            call_part(get(k, kernels.BUDGET_PART), k, address, size)
            return
        put(k, kernels.BLOCK_ADDRESS, address)
        put(k, kernels.BLOCK_SIZE, size)
        found, successor = follow(k, address, size)
        if not found:
            put(k, kernels.INSTRUCTIONS, total)
            call_part(get(k, kernels.SEARCH_PART), k, address, size)
            return
        operation = take(k, successor, total)
        if operation != 0 and not single(k, operation):
            call_part(get(k, kernels.OPERATE_PART), k, operation, 0)

    _operate_address = _native("simprof_operate", _on_operations, (0, 1, 2), [64, 64, 64])
    _list_address = _native("simprof_list", _on_list, (0, 1, 2), [64, 64, 64])
    _block_address = _native("simprof_block_hook", _on_block, (3, 1, 2), [64, 64, 32, 64])

    @c_function(result=_types.int64)
    def operate_address() -> int:
        """Return the address of the part of the hook that executes operations."""
        return _operate_address()  # type: ignore[no-any-return]

    @c_function(result=_types.int64)
    def list_address() -> int:
        """Return the address of the part of the hook that executes lists of operations."""
        return _list_address()  # type: ignore[no-any-return]

    @c_function(result=_types.int64)
    def block_hook_address() -> int:
        """Return the address of `advance` for uc_hook_add: `void (engine, uint64, uint32, k)`."""
        # Its user data is the address of the clock.
        return _block_address()  # type: ignore[no-any-return]

    @hook_part
    def execute_hook(k: int, operation: int, address: int) -> None:
        """`execute`, out of line."""
        status = execute(k, operation, address)
        if status != kernels.OK:
            call_part(get(k, kernels.SLOW_CALLBACK), status, address, 0)

    kernels.PARTS |= {
        kernels.OPERATE_PART: operate_address,
        kernels.QUICK_PART: list_address,
        kernels.EXECUTE_PART: lambda: execute_hook.address,
        kernels.SEARCH_PART: lambda: search_hook.address,
        kernels.BUDGET_PART: lambda: budget_hook.address,
    }

call_execute = compiled.for_python(execute)
call_advance = compiled.for_python(advance)
