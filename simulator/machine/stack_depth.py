"""How many frames lie on the program's stack, after a run: the walk that a debugger makes."""

from __future__ import annotations

from simprof.simulator.cpu.guest import GuestFault
from simprof.simulator.machine.machine import Machine

_FP_WORD = 14  # of a saved window


def stack_depth(machine: Machine, top: int) -> int:
    """Return how many frames the program has ended in, the innermost included.

    Parameters
    ----------
    machine
        After its run.
    top
        %sp at the program's start, without the bias: no frame lies above.
    """
    cpu = machine.cpu
    word = cpu.window_size // 16
    cpu.sync_wrapped_outs()
    # the innermost windows may be in registers still: the memory of their frames is older
    windows = [(cpu.state.cwp + k) % cpu.windows for k in range(cpu.state.canrestore + 1)]
    held = {cpu.window_stack_pointer(window): cpu.window_bytes(window) for window in windows}
    frame, depth = cpu.window_stack_pointer(cpu.state.cwp), 1
    while True:
        try:
            window = held.get(frame) or machine.read(frame, cpu.window_size)
        except GuestFault:
            return depth
        pointer = int.from_bytes(window[_FP_WORD * word : (_FP_WORD + 1) * word], "big")
        following = (pointer + cpu.stack_bias) & cpu.address_mask
        if following % 8 or not frame < following <= top:
            return depth
        frame, depth = following, depth + 1
