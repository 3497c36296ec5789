"""A graph in pieces: what cannot be captured runs between captured parts, in the order of the program.

A capture fails at an operator that waits for the card or has the CPU compute, one of a whole model perhaps. capture.py then asks for the
graph without it. Upstream's partitioner for CUDA graphs belongs to Inductor's scheduler; this one cuts the graph of AOTAutograd, whose
operators are the launches.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import groupby
from typing import Any

import torch
from torch.fx.passes.split_module import split_module
from torch.utils._pytree import tree_leaves

FEWEST_LAUNCHES = 4  # of a piece: below, a replay costs more than what the operators do


def cut(module: torch.fx.GraphModule, is_refused: Callable[[torch.fx.Node], bool], capture: Callable, fixed: set[int]) -> Callable | None:
    """`module`, called with its inputs, in pieces: `capture(piece, inputs, fixed)` for those without a refused operator.

    None if nothing is refused, or no piece is worth a capture.
    """
    places = _places(module.graph, is_refused)
    captured = {f"submod_{number}" for number, is_captured in set(places.values()) if is_captured}
    if not captured or all(is_captured for _, is_captured in places.values()):
        return None
    placeholders = module.graph.find_nodes(op="placeholder")
    theirs = {node.name for i, node in enumerate(placeholders) if i in fixed}
    whole = split_module(module, module, lambda node: places[node][0], keep_original_order=True, keep_original_node_name=True,
                         tuple_return=True)
    for name in captured:
        piece: Any = whole.get_submodule(name)
        symbols = _take_symbols(piece.graph)
        inputs = piece.graph.find_nodes(op="placeholder")
        stays = {i for i, node in enumerate(inputs) if node.name in theirs}
        piece.recompile()
        whole.set_submodule(name, _Piece(capture(piece, [node.meta.get("val") for node in inputs], stays), symbols))
    return whole


class _Piece(torch.nn.Module):
    def __init__(self, run: Callable, symbols: list[Callable]) -> None:
        super().__init__()
        self.run, self.symbols = run, symbols

    def forward(self, *inputs: Any) -> list[Any]:
        return self.run([*(value(inputs) for value in self.symbols), *inputs])


def _take_symbols(graph: torch.fx.Graph) -> list[Callable]:
    """Makes the symbolic sizes and strides of a piece's inputs inputs themselves, as those of a whole graph are: a capture holds for one
    value of each. Returns what finds the values among the other inputs."""
    inputs = graph.find_nodes(op="placeholder")
    found: dict[Any, tuple[torch.SymInt, Callable]] = {}
    for i, node in enumerate(inputs):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            for which in ("size", "stride"):
                for dim, number in enumerate(getattr(value, which)()):
                    if isinstance(number, torch.SymInt):
                        found.setdefault(number.node.expr, (number, _number(i, which, dim)))
    for k, (number, _) in enumerate(found.values()):
        with graph.inserting_before(inputs[0]):
            graph.placeholder(f"symbol_{k}").meta["val"] = number
    return [value for _, value in found.values()]


def _number(i: int, which: str, dim: int) -> Callable:
    return lambda inputs: getattr(inputs[i], which)(dim)


def _places(graph: torch.fx.Graph, is_refused: Callable[[torch.fx.Node], bool]) -> dict[torch.fx.Node, tuple[int, bool]]:
    """The piece of each call, and whether it is captured: neighbours that share an answer, but short ones run with what is refused."""
    every = [node for node in graph.nodes if node.op not in ("placeholder", "get_attr", "output")]
    calls = [node for node in every if not _is_item(node)]
    answers = {node: not is_refused(node) for node in calls}
    for run in _runs(calls, answers):
        if answers[run[0]] and sum(map(_is_launch, run)) < FEWEST_LAUNCHES:
            answers.update(dict.fromkeys(run, False))
    places = {node: (number, answers[node]) for number, run in enumerate(_runs(calls, answers)) for node in run}
    for node in every:
        if _is_item(node):  # is made where the results are: a capture takes tensors, no tuples of them
            places[node] = places[node.all_input_nodes[0]]
    return places


def _is_item(node: torch.fx.Node) -> bool:
    return node.target is operator.getitem and node.all_input_nodes[0].op == "call_function"


def _runs(calls: list[torch.fx.Node], answers: dict[torch.fx.Node, bool]) -> list[list[torch.fx.Node]]:
    return [list(run) for _, run in groupby(calls, key=answers.__getitem__)]


def _is_launch(node: torch.fx.Node) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.is_view:
        return False
    return any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(node.meta.get("val")))


def leaves_card(node: torch.fx.Node) -> bool:
    """Whether a call has tensors of another device, as arguments or as results."""
    values = (node.meta.get("val"), *(each.meta.get("val") for each in node.all_input_nodes))
    return any(isinstance(leaf, torch.Tensor) and leaf.device.type not in ("npu", "meta") for leaf in tree_leaves(values))
