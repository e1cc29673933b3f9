"""The algorithms of planning on the edges of one graph, one number after the other.

Depth-first search, dominators, natural loops, BL94's weights; the acyclic graph, the numbers of its
paths, where it is cut; spanning trees and what event counting moves onto their chords. What they
mean stands where they are called: `loops`, `spanning`, `dag`, `numbering`.
"""

# These functions are Python's, on lists of numbers of any size; as machine code they work on arrays
# of 64-bit words. `plan_calls` chooses. They use numbers and these arrays only: `size` has
# how many there are of what, those that have no other length are as long as is written there, and
# those that are not given are zero. Vertices and edges are numbered from 0.

from __future__ import annotations

from typing import Any

from simprof.simulator.cpu import compiled

# Numbers of a graph; a function gets those that it needs, and puts in what it has found.
#
# LIMIT: what sums must not exceed, where numbers have 64 bits; 0: they may have any size
# VERTICES, EDGES: how many there are
# ENTRY, EXIT: their vertices; in `loop_body` ENTRY is the loop's
# ROOT: whether EXIT -> ENTRY is in the tree
# REACHED: vertices that can be reached from ENTRY
# COUNT: back edges, removed edges, sources of a loop, cut edges: what the function is about
# OTHERS: self-loops, proper back edges, dummy edges
# THRESHOLD: paths from a vertex beyond which it is cut
# PATHS: paths that are left then; of `plan`, the most from any vertex
# MOST: paths that a routine may have; 0: however many
LIMIT, VERTICES, EDGES, ENTRY, EXIT, ROOT, REACHED, COUNT, OTHERS, THRESHOLD, PATHS = range(11)
MOST, SIZES = 11, 12

# What a guess takes for granted: see `weights.Guess`. A share that is not given is -1.
MULTIPLIER, FALL_THROUGH, LOOPS = range(3)

DONE, TOO_LARGE = 0, 1  # Results: TOO_LARGE where a sum would exceed the limit

UNSEEN, ON_STACK, FINISHED = 0, 1, 2
BACK, PROPER = 1, 2

Words = Any  # an array of numbers
Longs = Any  # and where it is machine code, its kind (`compiled.kernel`)
Reals = Any


def by_vertex(vertices: int, edges: int, ends: Words, first: Words, ordered: Words) -> None:
    """Sort edges by the vertices at one of their ends: those of v are first[v] to first[v + 1]."""
    for vertex in range(vertices + 1):
        first[vertex] = 0
    for edge in range(edges):
        first[ends[edge]] += 1
    for vertex in range(vertices):
        first[vertex + 1] += first[vertex]
    for back in range(edges):
        edge = edges - 1 - back
        first[ends[edge]] -= 1
        ordered[first[ends[edge]]] = edge


def sort(items: Words, spare: Words, begin: int, end: int, key: Words) -> None:
    """Sort items[begin:end] by ascending key; of equal ones the order stays."""
    width = 1
    while width < end - begin:
        low = begin
        while low < end:
            middle = min(low + width, end)
            high = min(middle + width, end)
            left, right = low, middle
            for at in range(low, high):
                if left < middle and (right >= high or key[items[left]] <= key[items[right]]):
                    spare[at] = items[left]
                    left += 1
                else:
                    spare[at] = items[right]
                    right += 1
            low = high
        for at in range(begin, end):
            items[at] = spare[at]
        width *= 2


# -- Loops


def depth_first(
    size: Words, source: Words, target: Words, first: Words, ordered: Words, state: Words,
    cursor: Words, stack: Words, preorder: Words, postorder: Words, back: Words,
) -> int:  # fmt: skip
    """Search from ENTRY; find both orders and, in `back`, the back edges as they are met."""
    by_vertex(size[VERTICES], size[EDGES], source, first, ordered)
    for vertex in range(size[VERTICES]):
        cursor[vertex] = first[vertex]
    entry = size[ENTRY]
    state[entry] = ON_STACK
    preorder[0] = stack[0] = entry
    reached, finished, count, depth = 1, 0, 0, 1
    while depth > 0:
        vertex = stack[depth - 1]
        if cursor[vertex] == first[vertex + 1]:
            state[vertex] = FINISHED
            postorder[finished] = vertex
            finished += 1
            depth -= 1
            continue
        edge = ordered[cursor[vertex]]
        cursor[vertex] += 1
        to = target[edge]
        if state[to] == UNSEEN:
            state[to] = ON_STACK
            preorder[reached] = stack[depth] = to
            reached += 1
            depth += 1
        elif state[to] == ON_STACK:
            back[count] = edge
            count += 1
    size[REACHED], size[COUNT] = reached, count
    return DONE


@compiled.kernel
def dominate(
    size: Longs, source: Longs, target: Longs, order: Longs, back: Longs, first: Longs,
    ordered: Longs, place: Longs, covered: Longs, begin: Longs, free: Longs, dominator: Longs,
    proper: Longs,
) -> int:  # fmt: skip
    """Find the immediate dominators of what is in `order`, which is topological, and whether each
    of the back edges is `proper`: its target dominates its source.
    """
    # Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm", 2001. Places in the topological
    # order, from 1 on: what dominates comes first. A vertex without dominator has -1.
    by_vertex(size[VERTICES], size[EDGES], target, first, ordered)
    for vertex in range(size[VERTICES]):
        dominator[vertex] = -1
    for at in range(size[REACHED]):
        place[order[at]] = at + 1
    dominator[order[0]] = order[0]
    changed = True
    while changed:
        changed = False
        for at in range(1, size[REACHED]):
            vertex = order[at]
            best = -1  # some predecessor comes earlier in the order
            for k in range(first[vertex], first[vertex + 1]):
                before = source[ordered[k]]
                if dominator[before] >= 0:
                    best = before if best < 0 else meet(dominator, place, best, before)
            if dominator[vertex] != best:
                dominator[vertex] = best
                changed = True
    # The dominator tree is arranged so that v dominates begin[v] to begin[v] + covered[v] - 1.
    for at in range(size[REACHED]):
        covered[order[at]] = 1
    for back_at in range(1, size[REACHED]):
        vertex = order[size[REACHED] - back_at]
        covered[dominator[vertex]] += covered[vertex]
    free[order[0]] = 1
    for at in range(1, size[REACHED]):
        vertex = order[at]
        above = dominator[vertex]
        begin[vertex] = free[above]
        free[above] += covered[vertex]
        free[vertex] = begin[vertex] + 1
    for at in range(size[COUNT]):
        below, above = source[back[at]], target[back[at]]
        inside = begin[below] - begin[above]
        proper[at] = 1 if 0 <= inside < covered[above] else 0
    return DONE


def meet(dominator: Words, place: Words, left: int, right: int) -> int:
    """Return the nearest vertex that dominates two, as far as is known."""
    while left != right:
        if place[left] > place[right]:
            left = dominator[left]
        else:
            right = dominator[right]
    return left


@compiled.kernel
def loop_body(
    size: Longs, source: Longs, target: Longs, order: Longs, ends: Longs, first: Longs,
    ordered: Longs, reached: Longs, stack: Longs, body: Longs,
) -> int:  # fmt: skip
    """Mark ENTRY and the vertices from which `ends` are reached without passing it."""
    by_vertex(size[VERTICES], size[EDGES], target, first, ordered)
    for at in range(size[REACHED]):
        reached[order[at]] = 1
    body[size[ENTRY]] = 1
    depth = 0
    for at in range(size[COUNT]):
        if body[ends[at]] == 0:
            body[ends[at]] = 1
            stack[depth] = ends[at]
            depth += 1
    close(1, depth, source, first, ordered, reached, stack, body)
    return DONE


def close(
    mark: int, depth: int, source: Words, first: Words, ordered: Words, reached: Words,
    stack: Words, body: Words,
) -> None:  # fmt: skip
    """Mark what leads to the vertices on the stack, as far as it is reached and not yet marked."""
    while depth > 0:
        depth -= 1
        vertex = stack[depth]
        for k in range(first[vertex], first[vertex + 1]):
            before = source[ordered[k]]
            if body[before] != mark and reached[before] != 0:
                body[before] = mark
                stack[depth] = before
                depth += 1


# -- Weights


@compiled.kernel
def heuristic(
    size: Longs, guess: Reals, source: Longs, target: Longs, order: Longs, back: Longs,
    proper: Longs, leads: Longs, out_first: Longs, out_edges: Longs, in_first: Longs,
    in_edges: Longs, reached: Longs, kind: Longs, head: Longs, body: Longs, stack: Longs,
    is_exit: Longs, exits: Longs, weight: Reals,
) -> int:  # fmt: skip
    """Weigh edges as BL94's section 5 does, in one traversal of the topological `order`."""
    # `proper` is by place in `back`; `leads`: whether an edge leads to a loop, where the guess says
    # something of those. The vertices of a loop come behind its entry, so that its exits are found
    # in time when the traversal comes to that.
    vertices, edges = size[VERTICES], size[EDGES]
    by_vertex(vertices, edges, source, out_first, out_edges)
    by_vertex(vertices, edges, target, in_first, in_edges)
    for at in range(size[REACHED]):
        reached[order[at]] = 1
    for at in range(size[COUNT]):
        kind[back[at]] = BACK
        if proper[at] != 0:
            kind[back[at]] = PROPER
            head[target[back[at]]] = 1
    for at in range(size[REACHED]):
        vertex = order[at]
        whole = 0.0  # rule 1
        for k in range(in_first[vertex], in_first[vertex + 1]):
            edge = in_edges[k]
            if kind[edge] == 0 and reached[source[edge]] != 0:
                whole += weight[edge]
        if vertex == size[ENTRY]:
            whole = 1.0
        if head[vertex] != 0:
            mark = vertex + 1
            body[vertex] = mark
            depth = 0
            for k in range(in_first[vertex], in_first[vertex + 1]):
                edge = in_edges[k]
                if kind[edge] == PROPER and body[source[edge]] != mark:
                    body[source[edge]] = mark
                    stack[depth] = source[edge]
                    depth += 1
            close(mark, depth, source, in_first, in_edges, reached, stack, body)
            count = 0
            for place in range(at, size[REACHED]):
                inside = order[place]
                if body[inside] == mark:
                    for k in range(out_first[inside], out_first[inside + 1]):
                        if body[target[out_edges[k]]] != mark:
                            exits[count] = out_edges[k]
                            count += 1
            for k in range(count):  # rule 2
                if is_exit[exits[k]] == 0:
                    is_exit[exits[k]] = 1
                    weight[exits[k]] = whole / count
            whole *= guess[MULTIPLIER]
        rest = 0  # rule 3
        for k in range(out_first[vertex], out_first[vertex + 1]):
            edge = out_edges[k]
            if is_exit[edge] != 0:
                whole -= weight[edge]
            else:
                exits[rest] = edge
                rest += 1
        share(exits, 0, rest, guess, leads, whole, weight)
    return DONE


@compiled.kernel
def edge_shares(
    size: Longs, guess: Reals, source: Longs, order: Longs, leads: Longs, first: Longs,
    ordered: Longs, weight: Reals,
) -> int:  # fmt: skip
    """Share 1 among the edges of each vertex in `order`."""
    by_vertex(size[VERTICES], size[EDGES], source, first, ordered)
    for at in range(size[REACHED]):
        vertex = order[at]
        share(ordered, first[vertex], first[vertex + 1], guess, leads, 1.0, weight)
    return DONE


def share(
    edges: Words, begin: int, end: int, guess: Words, leads: Words, whole: float, weight: Words
) -> None:
    """Share a weight among edges of one vertex."""
    count = end - begin
    favoured, towards, part = 1, False, guess[FALL_THROUGH]
    if guess[LOOPS] >= 0:
        leading = 0
        for at in range(begin, end):
            leading += leads[edges[at]]
        if 0 < leading < count:
            favoured, towards, part = leading, True, guess[LOOPS]
    even = part < 0 or favoured >= count
    for at in range(begin, end):
        edge = edges[at]
        if even:
            weight[edge] = whole / count
        elif (leads[edge] != 0) if towards else at == begin:
            weight[edge] = whole * part / favoured
        else:
            weight[edge] = whole * (1 - part) / (count - favoured)


# -- A graph's survey: all of these, which nearly every plan needs


def survey(
    size: Longs, guess: Reals, source: Longs, target: Longs, out_first: Longs, out_edges: Longs,
    in_first: Longs, in_edges: Longs, state: Longs, cursor: Longs, stack: Longs, preorder: Longs,
    postorder: Longs, order: Longs, back: Longs, place: Longs, covered: Longs, begin: Longs,
    free: Longs, dominator: Longs, proper: Longs, leads: Longs, reached: Longs, kind: Longs,
    head: Longs, body: Longs, is_exit: Longs, exits: Longs, weight: Reals,
) -> int:  # fmt: skip
    """Search from ENTRY, find dominators and proper back edges, and weigh edges."""
    depth_first(
        size, source, target, out_first, out_edges, state, cursor, stack, preorder, postorder, back
    )
    for at in range(size[REACHED]):
        order[at] = postorder[size[REACHED] - 1 - at]
    dominate(
        size, source, target, order, back, in_first, in_edges, place, covered, begin, free,
        dominator, proper,
    )  # fmt: skip
    return heuristic(
        size, guess, source, target, order, back, proper, leads, out_first, out_edges, in_first,
        in_edges, reached, kind, head, body, stack, is_exit, exits, weight,
    )  # fmt: skip


# -- The acyclic graph


@compiled.kernel
def make_dag(
    size: Longs, source: Longs, target: Longs, preorder: Longs, removed: Longs, turns: Longs,
    gone: Longs, reached: Longs, leaves: Longs, starts: Longs, ends: Longs, dag_source: Longs,
    dag_target: Longs, dag_edge: Longs, first: Longs, stands: Longs,
) -> int:  # fmt: skip
    """Put dummy edges in the place of removed ones, and of self-loops (`turns`) nothing."""
    # Real edges come first; of dummy edge number d (from 0) `stands` has the edges that it stands
    # for, first[d] to first[d + 1]. `dag_edge` is -1 of dummies. `starts`, `ends`: by vertex, the
    # dag's edge ENTRY -> v and v -> EXIT, + 1.
    entry, leave = size[ENTRY], size[EXIT]
    for at in range(size[REACHED]):
        reached[preorder[at]] = 1
    for at in range(size[COUNT]):
        gone[removed[at]] = 1
        if source[removed[at]] == entry:
            leaves[entry] = 1
    for at in range(size[OTHERS]):
        gone[turns[at]] = 1
    count = 0
    for edge in range(size[EDGES]):
        if reached[source[edge]] != 0 and gone[edge] == 0:
            dag_source[count], dag_target[count], dag_edge[count] = source[edge], target[edge], edge
            leaves[source[edge]] = 1
            count += 1
    real = count
    for at in range(size[COUNT]):
        to = target[removed[at]]
        if to != leave and starts[to] == 0:
            dag_source[count], dag_target[count], dag_edge[count] = entry, to, -1
            count += 1
            starts[to] = count
    for at in range(size[COUNT]):
        vertex = source[removed[at]]
        if vertex != entry and ends[vertex] == 0:
            dag_source[count], dag_target[count], dag_edge[count] = vertex, leave, -1
            count += 1
            ends[vertex] = count
    for at in range(size[REACHED]):
        vertex = preorder[at]
        if leaves[vertex] == 0 and vertex != leave and ends[vertex] == 0:
            dag_source[count], dag_target[count], dag_edge[count] = vertex, leave, -1
            count += 1
            ends[vertex] = count
    for at in range(size[COUNT]):
        begins, stops = starts[target[removed[at]]], ends[source[removed[at]]]
        if begins > 0:
            first[begins - real - 1] += 1
        if stops > 0:
            first[stops - real - 1] += 1
    for dummy in range(count - real):
        first[dummy + 1] += first[dummy]
    for back in range(size[COUNT]):
        edge = removed[size[COUNT] - 1 - back]
        begins, stops = starts[target[edge]], ends[source[edge]]
        if begins > 0:
            first[begins - real - 1] -= 1
            stands[first[begins - real - 1]] = edge
        if stops > 0:
            first[stops - real - 1] -= 1
            stands[first[stops - real - 1]] = edge
    size[COUNT], size[OTHERS] = count, count - real
    return DONE


# -- Numbers of paths


@compiled.kernel
def number(
    size: Longs, source: Longs, target: Longs, order: Longs, first: Longs, ordered: Longs,
    spare: Longs, key: Longs, paths: Longs, value: Longs,
) -> int:  # fmt: skip
    """Count the paths from each vertex of an acyclic graph, and value its edges (EPP figure 5)."""
    by_vertex(size[VERTICES], size[EDGES], source, first, ordered)
    paths[size[EXIT]] = 1
    for back in range(size[REACHED]):
        vertex = order[size[REACHED] - 1 - back]
        if vertex == size[EXIT]:
            continue
        begin, end = first[vertex], first[vertex + 1]
        for k in range(begin, end):
            key[ordered[k]] = paths[target[ordered[k]]]
        sort(ordered, spare, begin, end, key)
        total = 0
        for k in range(begin, end):
            value[ordered[k]] = total
            total += key[ordered[k]]
            if size[LIMIT] > 0 and total > size[LIMIT]:
                return TOO_LARGE
        paths[vertex] = total
    return DONE


def truncate(
    size: Longs, source: Longs, target: Longs, dag_edge: Longs, order: Longs, first: Longs,
    ordered: Longs, paths: Longs, starts: Longs, cuts: Longs,
) -> int:  # fmt: skip
    """Cut all edges of each vertex from which more paths than THRESHOLD lead (EPP 5.3)."""
    by_vertex(size[VERTICES], size[EDGES], source, first, ordered)
    for vertex in range(size[VERTICES]):
        starts[vertex] = 0
    entry, leave = size[ENTRY], size[EXIT]
    paths[leave] = 1
    count = 0
    for back in range(size[REACHED]):
        vertex = order[size[REACHED] - 1 - back]
        if vertex == leave:
            continue
        total = 0
        for k in range(first[vertex], first[vertex + 1]):
            total += paths[target[ordered[k]]]
            if size[LIMIT] > 0 and total > size[LIMIT]:
                return TOO_LARGE
        if total > size[THRESHOLD] and vertex != entry:
            # Left are edges to EXIT, a dummy one among them.
            before, others, has_dummy = count, 0, 0
            for k in range(first[vertex], first[vertex + 1]):
                edge = ordered[k]
                if dag_edge[edge] >= 0 and target[edge] != leave:
                    cuts[count] = dag_edge[edge]
                    count += 1
                    starts[target[edge]] = 1
                else:
                    others += 1
                    if dag_edge[edge] < 0 and target[edge] == leave:
                        has_dummy = 1
            if count > before:
                total = others + 1 - has_dummy
        paths[vertex] = total
    total = 0
    for k in range(first[entry], first[entry + 1]):
        edge = ordered[k]
        if dag_edge[edge] >= 0:
            total += paths[target[edge]]
        else:
            starts[target[edge]] = 1
        if size[LIMIT] > 0 and total > size[LIMIT]:
            return TOO_LARGE
    for vertex in range(size[VERTICES]):
        if starts[vertex] != 0:
            total += paths[vertex]
            if size[LIMIT] > 0 and total > size[LIMIT]:
                return TOO_LARGE
    size[COUNT], size[PATHS] = count, total
    return DONE


@compiled.kernel
def choose_cuts(
    size: Longs, source: Longs, target: Longs, dag_edge: Longs, order: Longs, first: Longs,
    ordered: Longs, paths: Longs, starts: Longs, cuts: Longs,
) -> int:  # fmt: skip
    """Cut as `truncate` does, with the greatest THRESHOLD up to that given which leaves no more
    than MOST paths; 0: however many. Where none does, with the one that leaves the fewest.
    """
    # EPP's limit is a threshold for each vertex. As every cut adds dummy edges at ENTRY, a routine
    # may be left with many times that. So the limit is the first threshold, and while it leaves the
    # routine more paths than the limit, the threshold is halved, and then raised again as far as
    # that goes. Where no threshold that was tried brings it within, which takes a limit of about
    # the number of its branches or less, the cuts are those that leave the fewest paths.
    most = size[MOST]
    within = beyond = best = size[THRESHOLD]
    fewest = -1
    while True:
        size[THRESHOLD] = within
        done = truncate(size, source, target, dag_edge, order, first, ordered, paths, starts, cuts)
        if done == TOO_LARGE:
            return TOO_LARGE
        if fewest < 0 or size[PATHS] < fewest:
            best, fewest = within, size[PATHS]
        if most == 0 or size[PATHS] <= most or within == 1:
            break
        beyond, within = within, within // 2
    if 0 < most < size[PATHS]:
        within = beyond = best
    while beyond - within > 1:
        size[THRESHOLD] = (within + beyond) // 2
        done = truncate(size, source, target, dag_edge, order, first, ordered, paths, starts, cuts)
        if done == TOO_LARGE:
            return TOO_LARGE
        if size[PATHS] <= most:
            within = size[THRESHOLD]
        else:
            beyond = size[THRESHOLD]
    if size[THRESHOLD] == within:  # the last one that was tried
        return DONE
    size[THRESHOLD] = within
    return truncate(size, source, target, dag_edge, order, first, ordered, paths, starts, cuts)


# -- Trees


def find_root(parent: Words, vertex: int) -> int:
    """Return what stands for the set that a vertex is in, of disjoint sets kept as a forest."""
    while parent[vertex] != vertex:
        parent[vertex] = parent[parent[vertex]]
        vertex = parent[vertex]
    return vertex


@compiled.kernel
def spanning_tree(
    size: Longs, weight: Reals, source: Longs, target: Longs, barred: Longs, order: Longs,
    spare: Longs, key: Reals, parent: Longs, in_tree: Longs,
) -> int:  # fmt: skip
    """Find a spanning tree of greatest weight: Kruskal's, of equal weights the lower edge first."""
    for vertex in range(size[VERTICES]):
        parent[vertex] = vertex
    if size[ROOT] != 0:
        parent[size[EXIT]] = size[ENTRY]
    for edge in range(size[EDGES]):
        order[edge] = edge
        key[edge] = -weight[edge]
    sort(order, spare, 0, size[EDGES], key)
    for at in range(size[EDGES]):
        edge = order[at]
        if barred[edge] != 0:
            continue
        left, right = find_root(parent, source[edge]), find_root(parent, target[edge])
        if left != right:
            parent[left] = right
            in_tree[edge] = 1
    return DONE


@compiled.kernel
def count_events(
    size: Longs, source: Longs, target: Longs, in_tree: Longs, barred: Longs, value: Longs,
    first: Longs, known: Longs, stack: Longs, ordered: Longs, potential: Longs, increment: Longs,
) -> int:  # fmt: skip
    """Move values onto the chords of a tree that holds EXIT -> ENTRY or a way between them."""
    # Tree edges by vertex, at both ends, of the edge e as e + 1 where it leaves and -e - 1 where it
    # enters. EXIT -> ENTRY in the tree gives both the same potential.
    total = 0
    for edge in range(size[EDGES]):
        total += abs(value[edge])
        if size[LIMIT] > 0 and total > size[LIMIT]:
            return TOO_LARGE
        if in_tree[edge] != 0:
            first[source[edge]] += 1
            first[target[edge]] += 1
    for vertex in range(size[VERTICES]):
        first[vertex + 1] += first[vertex]
    for edge in range(size[EDGES]):
        if in_tree[edge] != 0:
            first[source[edge]] -= 1
            ordered[first[source[edge]]] = edge + 1
            first[target[edge]] -= 1
            ordered[first[target[edge]]] = -edge - 1
    known[size[ENTRY]] = 1
    stack[0] = size[ENTRY]
    depth = 1
    if size[ROOT] != 0 and known[size[EXIT]] == 0:
        known[size[EXIT]] = 1
        stack[1] = size[EXIT]
        depth = 2
    while depth > 0:
        depth -= 1
        vertex = stack[depth]
        for k in range(first[vertex], first[vertex + 1]):
            edge = abs(ordered[k]) - 1
            leaves = ordered[k] > 0
            other = target[edge] if leaves else source[edge]
            if known[other] == 0:
                known[other] = 1
                potential[other] = potential[vertex] + (value[edge] if leaves else -value[edge])
                stack[depth] = other
                depth += 1
    for edge in range(size[EDGES]):
        if in_tree[edge] == 0 and barred[edge] == 0:
            increment[edge] = value[edge] + potential[source[edge]] - potential[target[edge]]
    return DONE


# -- Placement


@compiled.kernel
def frontier(
    size: Longs, source: Longs, target: Longs, may: Longs, first: Longs, ordered: Longs,
    degree: Longs, stack: Longs, stops: Longs, passed: Longs,
) -> int:  # fmt: skip
    """Follow edges from ENTRY while they `may` be followed and are the only way to their target."""
    by_vertex(size[VERTICES], size[EDGES], source, first, ordered)
    for vertex in range(size[VERTICES]):
        degree[vertex] = 0
    for edge in range(size[EDGES]):
        degree[target[edge]] += 1
    stack[0] = size[ENTRY]
    depth = 1
    while depth > 0:
        depth -= 1
        vertex = stack[depth]
        for k in range(first[vertex], first[vertex + 1]):
            edge = ordered[k]
            to = target[edge]
            if degree[to] == 1 and may[edge] != 0 and passed[to] == 0:
                passed[to] = 1
                stack[depth] = to
                depth += 1
            else:
                stops[edge] = 1
    return DONE


@compiled.kernel
def register_steps(
    size: Longs, source: Longs, target: Longs, in_tree: Longs, joins: Longs, leaves: Longs,
    stays: Longs, may: Longs, first: Longs, ordered: Longs, degree: Longs, stack: Longs,
    initial: Longs, static: Longs, final: Longs, counted: Longs,
) -> int:  # fmt: skip
    """Mark the edges that set the register and those that count (EPP figure 8), and the vertices
    that each is moved past: over tree edges, not into a vertex that `joins`, nor out of one that
    `leaves`.
    """
    for at in range(size[COUNT]):
        stays[joins[at]] = 1
    stays[size[EXIT]] = 1
    for edge in range(size[EDGES]):
        may[edge] = 1 if in_tree[edge] != 0 and stays[target[edge]] == 0 else 0
    frontier(size, source, target, may, first, ordered, degree, stack, initial, static)
    for vertex in range(size[VERTICES]):
        stays[vertex] = 0
    for at in range(size[OTHERS]):
        stays[leaves[at]] = 1
    for edge in range(size[EDGES]):
        moves = in_tree[edge] != 0 and stays[source[edge]] == 0 and initial[edge] == 0
        may[edge] = 1 if moves else 0
    size[ENTRY] = size[EXIT]
    return frontier(size, target, source, may, first, ordered, degree, stack, final, counted)


@compiled.kernel
def obvious(
    size: Longs, source: Longs, target: Longs, order: Longs, early: Longs, first: Longs,
    ordered: Longs, in_first: Longs, in_edges: Longs, before: Longs, after: Longs, seen: Longs,
    defining: Longs, point: Longs, kept: Longs,
) -> int:  # fmt: skip
    """Mark the edges that are on one path only (defining ones), the recording points, and the edges
    that those need at which a path without defining edge ends (TPP 4.2.2, figure 8).
    """
    # ROOT is the EXIT block, or -1; in the COUNT vertices `early` activations end. `before` and
    # `after` are numbers of ways from ENTRY and to EXIT, 2 for several; `seen`: whether a path
    # without defining edge leads to a vertex, and later, whether an edge from it is kept.
    entry, leave, only = size[ENTRY], size[EXIT], size[ROOT]
    by_vertex(size[VERTICES], size[EDGES], source, first, ordered)
    by_vertex(size[VERTICES], size[EDGES], target, in_first, in_edges)
    before[entry] = 1
    for at in range(size[REACHED]):
        vertex = order[at]
        for k in range(first[vertex], first[vertex + 1]):
            to = target[ordered[k]]
            before[to] = min(before[to] + before[vertex], 2)
    for at in range(size[COUNT]):
        after[early[at]] = 1
    after[leave] = 1
    for back in range(size[REACHED]):
        vertex = order[size[REACHED] - 1 - back]
        for k in range(first[vertex], first[vertex + 1]):
            after[vertex] = min(after[vertex] + after[target[ordered[k]]], 2)
    for edge in range(size[EDGES]):
        if before[source[edge]] == 1 and after[target[edge]] == 1:
            defining[edge] = 1
    # Defining edges lead to vertices that one way leads from: every way to another has none.
    for at in range(size[REACHED]):
        vertex = order[at]
        if after[vertex] != 1:
            seen[vertex] = 1
        for k in range(in_first[vertex], in_first[vertex + 1]):
            if defining[in_edges[k]] == 0 and seen[source[in_edges[k]]] != 0:
                seen[vertex] = 1
    points = needed = inner = inner_needed = 0
    for k in range(in_first[leave], in_first[leave + 1]):
        end = in_edges[k]
        if source[end] != only or defining[end] != 0:
            point[end] = 1
            continue
        for inside in range(in_first[only], in_first[only + 1]):
            point[in_edges[inside]] = 2
    for edge in range(size[EDGES]):
        if point[edge] == 0:
            continue
        points += 1
        inner += point[edge] - 1
        if defining[edge] == 0 and seen[source[edge]] != 0:
            kept[edge] = 1
            needed += 1
            inner_needed += point[edge] - 1
    for vertex in range(size[VERTICES]):
        seen[vertex] = 0
    for edge in range(size[EDGES]):
        if needed == points:
            kept[edge] = 1
        elif kept[edge] != 0:
            seen[source[edge]] = 1
    for back in range(size[REACHED]):
        vertex = order[size[REACHED] - 1 - back]
        if seen[vertex] != 0:
            for k in range(in_first[vertex], in_first[vertex + 1]):
                kept[in_edges[k]] = seen[source[in_edges[k]]] = 1
    if inner_needed > 0:
        for k in range(in_first[leave], in_first[leave + 1]):
            if point[in_edges[k]] == 0:
                kept[in_edges[k]] = 1
    if inner_needed == 0 or inner_needed == inner:  # one point does for a block where all are alike
        for edge in range(size[EDGES]):
            point[edge] = 1 if target[edge] == leave else 0
    return DONE


# -- The numbers of an acyclic graph, on its chords: three of these


@compiled.kernel
def number_chords(
    size: Longs, weight: Reals, source: Longs, target: Longs, dag_edge: Longs, starts: Longs,
    stands: Longs, order: Longs, first: Longs, ordered: Longs, spare: Longs, key: Longs,
    paths: Longs, value: Longs, whole: Reals, barred: Longs, tree_order: Longs, tree_key: Reals,
    parent: Longs, in_tree: Longs, tree_first: Longs, known: Longs, stack: Longs,
    tree_edges: Longs, potential: Longs, increment: Longs,
) -> int:  # fmt: skip
    """Number the paths of an acyclic graph and move the numbers onto chords, where from no vertex
    more than THRESHOLD lead; 0: however many. `starts`: where `stands` has what a dummy stands for.
    """
    done = number(size, source, target, order, first, ordered, spare, key, paths, value)
    if done == TOO_LARGE:
        size[PATHS] = size[LIMIT]  # at least
        return DONE if 0 < size[THRESHOLD] < size[LIMIT] else TOO_LARGE
    for vertex in range(size[VERTICES]):
        size[PATHS] = max(size[PATHS], paths[vertex])
    if 0 < size[THRESHOLD] < size[PATHS]:
        return DONE
    real = size[EDGES] - size[OTHERS]
    for edge in range(real):
        whole[edge] = weight[dag_edge[edge]]
    for dummy in range(size[OTHERS]):
        for at in range(starts[dummy], starts[dummy + 1]):
            whole[real + dummy] += weight[stands[at]]
    spanning_tree(size, whole, source, target, barred, tree_order, spare, tree_key, parent, in_tree)
    return count_events(
        size, source, target, in_tree, barred, value, tree_first, known, stack, tree_edges,
        potential, increment,
    )  # fmt: skip
