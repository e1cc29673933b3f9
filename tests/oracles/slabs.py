"""The k-slab forest and the k-iteration path forest, as D'Elia's thesis states them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

BEGIN = None  # `*` in a stream


@dataclass
class Node:
    """A node of a forest."""

    label: int
    count: int = 0
    children: dict[int, Node] = field(default_factory=dict)

    def child(self, label: int) -> Node:
        return self.children.setdefault(label, Node(label))


def slab_forest(stream: Sequence[int | None], k: int) -> Node:
    """Return the node above the roots of the k-SF of a stream."""
    top, n = Node(-1), 0
    tau: Node | None = None
    beta: Node | None = None
    for r in stream:
        if r is BEGIN:
            n, tau, beta = 0, None, None
            continue
        if n % (k - 1) == 0:
            beta, tau = tau, top.child(r)
        else:
            assert tau is not None
            tau = tau.child(r)
        if beta is not None:
            beta = beta.child(r)
            beta.count += 1
        else:
            tau.count += 1
        n += 1
    return top


def all_nodes(top: Node) -> Iterator[tuple[tuple[int, ...], Node]]:
    """Yield every node with its labels from the root on."""
    work: list[tuple[tuple[int, ...], Node]] = [((), top)]
    while work:
        labels, node = work.pop()
        for child in node.children.values():
            work.append(((*labels, child.label), child))
            yield work[-1]


def path_forest(top: Node, k: int) -> Node:
    """Return the k-IPF that a k-SF is converted to."""
    root = Node(-1)
    groups: dict[int, list[Node]] = defaultdict(list)
    for _, node in all_nodes(top):
        groups[node.label].append(node)
    for group in groups.values():
        for node in group:
            _join(node, root, k)
    return root


def _join(rho: Node, gamma: Node, depth: int) -> None:
    delta = gamma.child(rho.label)
    delta.count += rho.count
    if depth > 1:
        for sigma in rho.children.values():
            _join(sigma, delta, depth - 1)


def counts(top: Node) -> dict[tuple[int, ...], int]:
    """Return the counts of a forest's nodes, by their labels, where they are not 0."""
    return {labels: node.count for labels, node in all_nodes(top) if node.count}


def sequences(stream: Sequence[int | None], k: int) -> Counter[tuple[int, ...]]:
    """Return how often each sequence of up to k numbers is in a stream, counted one by one."""
    found: Counter[tuple[int, ...]] = Counter()
    part: list[int] = []
    for r in (*stream, BEGIN):
        if r is not BEGIN:
            part.append(r)
            continue
        for n in range(1, k + 1):
            found.update(tuple(part[at : at + n]) for at in range(len(part) - n + 1))
        part = []
    return found
