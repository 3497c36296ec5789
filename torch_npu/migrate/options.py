"""What the command line can ask of a conversion beside input and output."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    specify_device: bool = False
    distributed: bool = False
    main_file: str = ""  # of the distributed mode, relative to the input
    target_model: str = "model"
