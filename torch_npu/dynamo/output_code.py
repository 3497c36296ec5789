"""What AOTAutograd gets for one of its graphs. Upstream saves and loads it: torch.compile(..., fullgraph=True).aot_compile(...)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor.output_code import RegionalOutputCode

from torch_npu.dynamo import capture


def _every_operator(name: str) -> bool:
    return True


class GraphCode(RegionalOutputCode):
    """A graph that is captured, or run eagerly. Upstream's class turns graphs into bytes and back."""

    def __init__(self, module: torch.fx.GraphModule, inputs: Sequence[Any], fixed: set[int], *, captures: bool) -> None:
        super().__init__(module, ops_filter=_every_operator)
        self._fixed, self._captures = fixed, captures
        self._run = self._runner(inputs)

    def _runner(self, inputs: Sequence[Any]) -> Callable:
        module: Any = self._graph_module
        return capture.captured(module, inputs, self._fixed) if self._captures else capture.eagerly(module)

    def __call__(self, inputs: Any) -> list[Any]:
        return self._run(inputs)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_run"}

    def post_compile(self, example_inputs: Sequence[Any], constants: Any, graph_kwargs: Any) -> None:
        super().post_compile(example_inputs, constants, graph_kwargs)
        if "_run" not in self.__dict__:  # it was loaded
            self._run = self._runner(example_inputs)
