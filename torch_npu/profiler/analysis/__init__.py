"""From a profile's raw trace to its tables, timeline and databases. Needs no card and no runtime: it may run on another machine."""

import csv
import json
import shutil
from pathlib import Path

from torch_npu.profiler import _folder
from torch_npu.profiler.analysis import tables
from torch_npu.profiler.analysis.trace import Trace, read

__all__ = ["analyse_profile"]


def analyse_profile(path: Path, export_types: list[str] | None = None) -> bool:
    """Writes ASCEND_PROFILER_OUTPUT of one profile. Tells in one sentence what went wrong, and returns False then."""
    try:
        info, rank = _folder.read_info(path)
        config = info.get("config", {}).get("experimental_config", {})
        trace = read(path)
        extras = path / _folder.RAW / _folder.EXTRAS
        info |= json.loads(extras.read_text(encoding="utf-8")) if extras.exists() else {}
        output = _folder.make(path / _folder.OUTPUT)
        for export_type in export_types or config.get("_export_type", ["text"]):
            (_write_text if export_type == "text" else _write_database)(output, trace, info, config, rank)
    except FileNotFoundError:
        _folder.warn(f"{path} has no raw data to analyse; it was not recorded to the end, or data_simplification has removed it.")
        return False
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        _folder.warn(f"{path} could not be analysed: {_folder.reason(error)}; what was recorded is kept in its folder {_folder.RAW}.")
        return False
    if not trace.complete:
        _folder.warn(f"{path} was not recorded to its end: it shows the {len(trace.launches)} launches that were written by then.")
    elif config.get("_data_simplification", True):
        shutil.rmtree(path / _folder.RAW, ignore_errors=True)
    return True


def _write_text(output: Path, trace: Trace, info: dict, config: dict, rank: int | None) -> None:
    from torch_npu.profiler.analysis.communication import communication
    from torch_npu.profiler.analysis.timeline import Timeline

    in_detail = _in_detail(config)
    metrics = in_detail and config.get("_aic_metrics") != "ACL_AICORE_NONE"
    wanted = {"kernel_details": tables.kernel_details(trace, metrics), "operator_details": tables.operator_details(trace),
              "step_trace_time": tables.step_trace_time(trace)}
    if trace.memory:
        wanted |= {"memory_record": tables.memory_record(trace), "operator_memory": tables.operator_memory(trace)}
    if in_detail:
        wanted |= {"op_statistic": tables.op_statistic(trace), "api_statistic": tables.api_statistic(trace)}
    for name, (header, rows) in wanted.items():
        with _folder.open_for_writing(output / f"{name}.csv") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)
    if in_detail:
        _folder.write_json(output / "communication.json", communication(trace))
    _folder.write_json(output / "trace_view.json", Timeline(trace, info, in_detail).events)


def _write_database(output: Path, trace: Trace, info: dict, config: dict, rank: int | None) -> None:
    from torch_npu.profiler.analysis import database

    metadata_file = output.parent / _folder.METADATA
    metadata = json.loads(metadata_file.read_text(encoding="utf-8")) if metadata_file.exists() else {}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in metadata.items()}
    database.write(output, trace, info, texts, rank, _in_detail(config))


def _in_detail(config: dict) -> bool:
    return config.get("_profiler_level") in ("Level1", "Level2")
