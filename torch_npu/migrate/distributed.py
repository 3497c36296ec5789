"""The edits that make a script for one card one for several: DistributedDataParallel around the model, a sampler for each DataLoader."""

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, ParentNodeProvider

from torch_npu.migrate.edits import Edit, insert_line

RUN_SCRIPT = """#!/bin/bash
# Runs the program on the cards of this machine, one process for each. NPUS=4 bash run_distributed_npu.sh --epochs 3
cd "$(dirname "${{BASH_SOURCE[0]}}")"
exec torchrun --nproc_per_node="${{NPUS:-8}}" --master_port="${{MASTER_PORT:-29688}}" {main} "$@"
"""


def edits_for_distributed(wrapper: MetadataWrapper, model: str) -> list[Edit]:
    visitor = _Distributed(wrapper, model)
    wrapper.visit(visitor)
    last_model = visitor.last_model
    if last_model is None:
        raise ValueError(f"no assignment to `{model}` was found; cure: name the variable that holds the model with -t")
    return visitor.edits + [visitor.wrap_model(last_model)]


class _Distributed(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (ByteSpanPositionProvider, ParentNodeProvider)

    def __init__(self, wrapper: MetadataWrapper, model: str) -> None:
        super().__init__()
        self.model = model
        self.edits: list[Edit] = []
        self.last_model: cst.SimpleStatementLine | None = None
        self.module = wrapper.module
        self.text = wrapper.module.code.encode()
        self.spans = wrapper.resolve(ByteSpanPositionProvider)

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        for statement in node.body:
            if isinstance(statement, cst.Assign) and isinstance(statement.value, cst.Call):
                target = statement.targets[0].target
                if isinstance(target, cst.Name) and target.value == self.model:
                    self.last_model = node

    def wrap_model(self, assignment: cst.SimpleStatementLine) -> Edit:
        span = self.spans[assignment]
        start = self.text.rfind(b"\n", 0, span.start) + 1
        indent = self.text[start : span.start].decode()
        line = (
            f"{indent}{self.model} = torch.nn.parallel.DistributedDataParallel("
            f"{self.model}.npu(), device_ids=[torch.npu.current_device()])"
        )
        end = span.start + span.length
        return insert_line(self.text, end, [line], self.module.default_newline, self.model, "wrapped in DistributedDataParallel")

    def visit_Call(self, node: cst.Call) -> None:
        function = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        if not (isinstance(function, cst.Name) and function.value == "DataLoader") or not node.args:
            return
        keywords = {arg.keyword.value: arg for arg in node.args if arg.keyword is not None}
        if {"sampler", "batch_sampler"} & keywords.keys():
            return
        dataset = keywords["dataset"].value if "dataset" in keywords else node.args[0].value
        shuffle = keywords.get("shuffle")
        choice = self.module.code_for_node(shuffle.value) if shuffle else "False"
        sampler = f"torch.utils.data.distributed.DistributedSampler({self.module.code_for_node(dataset)}, shuffle={choice})"
        tip = "each card reads its own part of the data"
        if shuffle and shuffle.keyword:
            span = self.spans[shuffle.keyword], self.spans[shuffle.value]
            self.edits.append(Edit(span[0].start, span[1].start + span[1].length, f"sampler={sampler}", "DataLoader", tip))
        else:
            last = self.spans[node.args[-1].value]
            end = last.start + last.length
            self.edits.append(Edit(end, end, f", sampler={sampler}", "DataLoader", tip))
