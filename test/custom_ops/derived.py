"""What follows from a case of an operator: the same call with fewer rows."""

import re

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

# What only a task can find out: a number in a tensor leads outside, or says other sizes than there are. With TASK_QUEUE_ENABLE=2
# refusals come as late.
OF_NUMBERS = re.compile(r"has the number|out of bounds|out of range|adds? up to|negative|there are \d+|names? a token|are not as many|"
                        r"actual_seq|fewer than the \d+ rows|dimension size|refused its arguments")


def with_rows(case, count):
    """(args, kwargs) with the first axis of the first tensor cut to `count`, and of every other one the first axis of its length."""
    first = next((t for t in tree_leaves((case.args, case.kwargs)) if isinstance(t, torch.Tensor) and t.dim()), None)
    length = len(first) if first is not None else 0

    def cut(t):
        return t.narrow(list(t.shape).index(length), 0, count).clone() if length in t.shape else t

    return tree_map_only(torch.Tensor, cut, (case.args, case.kwargs)) if length > count else None
