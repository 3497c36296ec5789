"""The schemas of custom operators in test/custom_ops/official_schemas.txt are what the official wheel registers.

`python schemas.py` with the official wheel (in the environment that ci/official.sh sets up) writes the file anew.
"""

from pathlib import Path

import torch

import torch_npu  # noqa: F401

FILE = Path(__file__).resolve().parent.parent / "custom_ops/official_schemas.txt"


def registered():
    """Schemas by operator, with the overload behind a dot."""
    schemas = (schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("npu::"))
    return {str(schema).partition("(")[0].removeprefix("npu::"): str(schema) for schema in schemas}


def recorded():
    return [line for line in FILE.read_text().splitlines() if not line.startswith("#")]


def check_recorded_schemas():
    official = registered()
    for schema in recorded():
        assert schema == official[schema.partition("(")[0].removeprefix("npu::")]


if __name__ == "__main__":
    head = [line for line in FILE.read_text().splitlines() if line.startswith("#")]
    FILE.write_text("\n".join([*head, *sorted(registered().values())]) + "\n")
