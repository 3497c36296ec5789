"""What conversion and analysis find in a file, and the kinds it is sorted into: one CSV file each."""

from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """The value is the name of the CSV file, the names that users of the tool know."""

    CHANGE = "change_list"
    UNSUPPORTED = "unsupported_api"
    UNKNOWN = "unknown_api"
    CUDA = "cuda_op_list"
    PRECISION = "api_precision_advice"
    PERFORMANCE = "api_performance_advice"
    AFFINITY = "affinity_api_call"


TITLES = {
    Kind.CHANGE: "Changed",
    Kind.UNSUPPORTED: "Not supported on npu",
    Kind.UNKNOWN: "Unknown to this release of torch",
    Kind.CUDA: "Written for CUDA: kernels and libraries",
    Kind.PRECISION: "Precision",
    Kind.PERFORMANCE: "Performance",
    Kind.AFFINITY: "Has a counterpart made for npu",
}


@dataclass(frozen=True, order=True)
class Finding:
    """One line of a report. Lines count from 1; `api` is what stands there, `tip` what to do about it."""

    file: str
    line: int
    end_line: int
    api: str
    tip: str
    kind: Kind = field(compare=False)


@dataclass
class FileResult:
    """What became of one file. `error` says in one sentence why it was left as it is."""

    path: str
    before: str = ""
    after: str = ""
    findings: list[Finding] = field(default_factory=list)
    error: str = ""
    data: bytes = b""  # `after` in the encoding of the source
    changed_lines: list[tuple[int, int, int, int]] = field(default_factory=list)  # see edits.changed_lines()

    @property
    def changed(self) -> bool:
        return self.before != self.after
