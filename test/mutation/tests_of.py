"""Which tests belong to a Python file: the ones that a mutant of it is given to. Every file of torch_npu/ has a row here or a reason."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from judge import ROOT, Stage

PYTHON = "test/python/test_"
CUSTOM_OPS = [f"test/custom_ops/test_{name}.py" for name in ("custom_ops", "refused_arguments", "compositions")]
EDGES = f"{PYTHON}migrate_edges.py"
PARTS = f"{PYTHON}migrate_parts.py"
CONVERT = [PARTS, f"{PYTHON}migrate_convert.py", f"{PYTHON}migrate_hostile.py", EDGES, "-k",
           "not own_sources and not browser and not linear"]
ANALYSE = [PARTS, f"{PYTHON}migrate_analyse.py", f"{PYTHON}migrate_advice.py", EDGES, "-k", "not function_mode and not speed"]
TRANSFER = [f"{PYTHON}transfer_parts.py", f"{PYTHON}transfer_to_npu.py", "-k", "not detectors and not processes"]
DISTRIBUTED = "test/distributed/test_"
# Source file or folder below torch_npu/ -> arguments of pytest. The first row that fits counts.
TESTS = {
    "__init__.py": [f"{PYTHON}startup_parts.py", f"{PYTHON}import.py", f"{PYTHON}utils.py"],
    "_after_import.py": [f"{PYTHON}startup_parts.py", f"{PYTHON}compile.py", f"{PYTHON}torchvision.py"],
    "_dtypes.py": [f"{PYTHON}mx_types.py"],
    "_captured_steps.py": [f"{PYTHON}startup_parts.py", f"{PYTHON}graphs.py", "-k", "startup_parts or host_is_refused or training_steps"],
    "_dump_settings.py": [f"{PYTHON}dump.py"],
    "_debug.py": [f"{PYTHON}startup_parts.py", f"{PYTHON}dump.py", f"{PYTHON}origins.py"],
    "_inspection.py": [f"{PYTHON}hang_parts.py", f"{PYTHON}hang.py"],
    "dashboard/": [f"{PYTHON}dashboard_parts.py", f"{PYTHON}dashboard.py"],
    "hang.py": [f"{PYTHON}hang_parts.py", f"{PYTHON}hang.py"],
    "npu/_gpu_trace.py": [f"{PYTHON}sanitizer.py"],
    "npu/_sanitizer.py": [f"{PYTHON}sanitizer.py"],
    "compare/": [f"{PYTHON}compare_parts.py", f"{PYTHON}compare.py"],
    "npu/_dump.py": [f"{PYTHON}dump.py"],
    "npu/_dump_modules.py": [f"{PYTHON}dump.py", f"{PYTHON}compare.py"],
    "doctor.py": [f"{PYTHON}doctor.py"],
    "smi.py": [f"{PYTHON}smi.py"],
    "_environment.py": [f"{PYTHON}startup_parts.py", f"{PYTHON}environment.py", f"{PYTHON}verify.py", "-k",
                        "startup_parts or variable or documented"],
    "_grad_scaler.py": [f"{PYTHON}startup_parts.py", f"{PYTHON}amp.py"],
    "_printing.py": [f"{PYTHON}printing.py"],
    "_register.py": [*(f"{PYTHON}{name}.py" for name in ("startup_parts", "tensor", "multiprocessing", "attention", "import")),
                     f"{DISTRIBUTED}init.py", "-k", "startup_parts or dlpack or multiprocessing or flex or version or identity or assigns "
                     "or pickle or default_backend"],
    "_startup.py": [f"{PYTHON}startup_parts.py", f"{PYTHON}import.py", f"{PYTHON}autoload.py"],
    "_torchvision/": [f"{PYTHON}torchvision.py"],
    "_unavailable.py": [f"{PYTHON}startup_parts.py", f"{PYTHON}autoload.py"],
    "atb.py": ["test/custom_ops/test_atb.py"],
    "op_plugin/": ["test/custom_ops/test_atb.py"],
    "contrib/_transfer/dynamo.py": [f"{PYTHON}transfer_compile.py", "-k", "not trainer"],
    "contrib/_transfer/script.py": [*(f"{PYTHON}transfer_{name}.py" for name in ("parts", "to_npu", "compile")), "-k", "script or undo"],
    "contrib/_transfer/environment.py": [*TRANSFER[:2], "-k", "transfer_parts or environment"],
    "contrib/_transfer/": TRANSFER,
    "contrib/transfer_to_npu.py": TRANSFER,
    "contrib/__init__.py": ["test/contrib/test_modules.py", "test/contrib/test_functions.py", "-k", "contrib"],
    "contrib/_named_patches.py": [f"{PYTHON}further_names.py", "-k", "patches"],
    "contrib/function/": ["test/contrib/test_functions.py", "test/contrib/test_gradients_and_shapes.py"],
    "contrib/": ["test/contrib/test_modules.py", "test/contrib/test_gradients_and_shapes.py"],
    "custom_ops/__init__.py": ["test/custom_ops/test_custom_ops.py", "test/custom_ops/test_random_and_steps.py",
                               "test/custom_ops/test_atb.py", "-k", "rms or refus or functions or schema or steps_need or fake or names"],
    "distributed/backend.py": [*(f"{DISTRIBUTED}{name}.py" for name in ("repair", "init", "hosts", "tools", "training")), "-k",
                               "repair or default_backend or environment or split_group or launcher or namespaces or options or compress"],
    "distributed/attention.py": [f"{DISTRIBUTED}training.py", "-k", "attention"],
    "distributed/sharding.py": [f"{DISTRIBUTED}training.py", "-k", "npu_operators"],
    "distributed/distributed_c10d.py": [*(f"{DISTRIBUTED}{name}.py" for name in ("repair", "init", "faults")), "-k",
                                        "repair or rebuilt or default_backend"],
    "distributed/rendezvous.py": [f"{DISTRIBUTED}rendezvous.py"],
    "distributed/run.py": [f"{DISTRIBUTED}repair.py", f"{DISTRIBUTED}init.py", "-k", "repair or launcher"],
    "distributed/": [f"{DISTRIBUTED}repair.py", f"{DISTRIBUTED}collectives.py", f"{PYTHON}import.py", "-k",
                     "repair or test_case or dir_lists"],
    "migrate/__main__.py": [f"{PYTHON}migrate_arguments.py", *CONVERT],
    "migrate/ms_fmk_transplt.py": [f"{PYTHON}migrate_arguments.py"],
    "migrate/analysis/": ANALYSE,
    "migrate/profiling.py": [PARTS, f"{PYTHON}migrate_analyse.py", EDGES, "-k", "profile or script"],
    "migrate/cuda_names.py": [*CONVERT[:2], *ANALYSE[1:3], EDGES, f"{PYTHON}migration_guide.py", *CONVERT[-2:]],
    "migrate/": CONVERT,
    "npu/amp/": [f"{PYTHON}amp.py"],
    "npu/autocast_utils.py": [f"{PYTHON}amp.py"],
    "npu/overflow.py": [f"{PYTHON}extension_calls.py", f"{PYTHON}overflow.py"],
    "dynamo/interface.py": [f"{PYTHON}compile_parts.py", f"{PYTHON}compile.py"],
    "dynamo/rules.py": [*(f"{PYTHON}{name}.py" for name in ("compile_parts", "compile", "transfer_compile", "options")),
                        "-k", "not trainer"],
    "npu/_recovery.py": [f"{PYTHON}recovery.py"],
    "npu/sync_debug.py": [f"{PYTHON}extension_calls.py", f"{PYTHON}sync_debug.py"],
    "npu/_graph_updates.py": [f"{PYTHON}graph_parts.py", f"{PYTHON}graphs.py", "-k", "graph_parts or update or refused"],
    "npu/_graphed_callables.py": [f"{PYTHON}graph_parts.py", f"{PYTHON}graphs.py", "-k", "graph_parts or callables"],
    "dynamo/backend.py": [*(f"{PYTHON}{name}.py" for name in ("compile_parts", "capture_parts", "capture_backend", "compile"))],
    "dynamo/capture.py": [f"{PYTHON}capture_parts.py", f"{PYTHON}capture_backend.py", f"{PYTHON}compile_programs.py",
                          f"{PYTHON}capture_pieces.py"],
    "dynamo/pieces.py": [f"{PYTHON}capture_pieces.py"],
    "dynamo/output_code.py": [f"{PYTHON}compile_parts.py", f"{PYTHON}compile.py", "-k", "compile_parts or saved or switched"],
    "dynamo/fusions.py": [f"{PYTHON}fusion_patterns.py", f"{PYTHON}fusions.py"],
    "npu/graphs.py": [f"{PYTHON}graph_parts.py", f"{PYTHON}graphs.py", "-k", "not training_steps"],
    "npu/_format.py": [f"{PYTHON}options.py", "test/custom_ops/test_custom_ops.py", "-k", "format or test_options"],
    "dynamo/inductor.py": [f"{PYTHON}compile_parts.py", f"{PYTHON}compile.py"],
    "npu/__init__.py": [f"{PYTHON}random.py", f"{PYTHON}devices.py"],
    "npu/core_limits.py": [f"{PYTHON}core_limits.py"],
    "npu/deterministic.py": [f"{PYTHON}extension_calls.py", f"{PYTHON}deterministic.py"],
    "npu/devices.py": [f"{PYTHON}extension_calls.py", f"{PYTHON}devices.py", f"{PYTHON}visible_devices.py"],
    "npu/memory.py": [f"{PYTHON}extension_calls.py", f"{PYTHON}memory.py", f"{PYTHON}further_names.py"],
    "npu/mstx.py": [f"{PYTHON}mstx.py"],
    "npu/npu_config.py": [f"{PYTHON}options.py", f"{PYTHON}utils_parts.py"],
    "npu/nvtx.py": [f"{PYTHON}transfer_to_npu.py", f"{PYTHON}mstx.py", "-k", "nvtx or profiler or mstx"],
    "npu/random.py": [f"{PYTHON}extension_calls.py", f"{PYTHON}random.py"],
    "npu/streams.py": [*(f"{PYTHON}{name}.py" for name in ("extension_calls", "streams", "async")), "-k",
                       "not copy_beside and not workspace"],
    "npu/tensor_types.py": [f"{PYTHON}tensor_types.py"],
    "npu/utils.py": [f"{PYTHON}extension_calls.py", f"{PYTHON}utils.py", f"{PYTHON}amp.py", f"{PYTHON}devices.py"],
    "profiler/dynamic_profile.py": ["test/profiler/test_dynamic_profile.py"],
    "profiler/": ["test/profiler"],
    "optim/": ["test/optim/test_fused_optimizers.py", "test/optim/test_options.py"],
    "testing/__init__.py": [f"{PYTHON}testing.py", "test/official_style/test_device_generic.py"],
    "testing/testcase.py": [f"{PYTHON}testing_assertions.py", "test/official_style/test_assertions.py"],
    "testing/": [f"{PYTHON}testing_common.py"],
    "verify/": [f"{PYTHON}verify_parts.py", f"{PYTHON}verify_run.py", f"{PYTHON}verify.py"],
    **dict.fromkeys(("_absent.py", "_acl/", "_afd/", "_fallback_modules.py", "_refusal.py", "asd/", "dynamo/npugraph_ex/",
                     "dynamo/torchair/", "jit/", "npu/_further.py", "npu/aclnn/", "npu/backends.py", "npu/npugraph_ex/", "version.py"),
                    [f"{PYTHON}further_names.py", f"{PYTHON}surface.py", f"{PYTHON}startup_parts.py"]),
    "multiprocessing/": [f"{PYTHON}multiprocessing.py", f"{PYTHON}shared_events.py"],
    "utils/_compatibility.py": [f"{PYTHON}compatibility.py"],
    **dict.fromkeys(("utils/_silent_faults.py", "utils/profiler.py"), [f"{PYTHON}further_names.py", f"{PYTHON}surface.py"]),
    "utils/dlpack.py": [f"{PYTHON}dlpack.py"],
    "utils/op_support.py": [f"{PYTHON}utils.py", f"{PYTHON}migrate_analyse.py", "-k", "op_support or support_is"],
    "utils/combine_tensors.py": ["test/optim/test_combine_tensors.py"],
    "utils/hif8_tensor.py": [f"{PYTHON}hifloat8_tensor.py"],
    "utils/serialization.py": [f"{PYTHON}utils_parts.py", f"{PYTHON}serialization.py", f"{PYTHON}training.py", "-k",
                               "utils_parts or serialization or save or disk"],
    "utils/": [f"{PYTHON}utils_parts.py", f"{PYTHON}utils.py"],
}
# Custom operators are tested case by case, named after the operator; these families have other tests besides.
BESIDE = {
    "assign": ["test/custom_ops/test_boxes.py", "test/custom_ops/test_memory_ops.py"],
    **dict.fromkeys(("atb", "atb_attention", "atb_latent", "atb_numbers", "atb_ring"),
                    ["test/custom_ops/test_atb.py", "test/custom_ops/test_atb_attention.py"]),
    "attention": ["test/custom_ops/test_attention.py", "test/custom_ops/test_gradients.py"],
    "boxes": [f"{PYTHON}torchvision.py"],
    "debug": ["test/custom_ops/test_memory_ops.py"],
    "dropout": ["test/custom_ops/test_random_and_steps.py"],
    "formats": ["test/custom_ops/test_formats.py"],
    "gradients": ["test/custom_ops/test_gradients.py"],
    "layout": ["test/custom_ops/test_refusals_misc.py", "test/custom_ops/test_refused_arguments.py"],
    "memory": ["test/custom_ops/test_memory_ops.py"],
    "nms": [f"{PYTHON}torchvision.py", "test/custom_ops/test_refused_arguments.py"],
    "optimizer": ["test/custom_ops/test_random_and_steps.py"],
    "older": ["test/custom_ops/test_gradients.py"],
    "quant": ["test/custom_ops/test_quant_arguments.py"],
    "roi": ["test/custom_ops/test_refusals_misc.py", "test/custom_ops/test_refused_arguments.py", f"{PYTHON}torchvision.py"],
    "rotated": ["test/custom_ops/test_boxes.py"],
    "softmax": ["test/custom_ops/test_random_and_steps.py"],
    "timeout": ["test/custom_ops/test_memory_ops.py"],
}
# File -> why it is not mutated.
NOT_MUTATED = {
    "_torchvision/schemas.py": "no code: a table of torchvision's schemas",
    "contrib/_transfer/table.py": "no code: a table of what is redirected",
    "custom_ops/schemas.py": "no code: a table of schemas",
    "dynamo/__init__.py": "no code",
    **{f"verify/{name}.py": "programs whose results on the card and on the CPU are compared: another number is another good program"
       for name in ("networks", *(f"operators/{table}" for table in "fused indexing layout matrix neural pointwise reduction".split()))},
}


def stages(path: str, function: str) -> list[Stage]:
    """The tests for a mutant in `function` of torch_npu/<path>; [] if the file is not mutated."""
    if path in NOT_MUTATED:
        return []
    folder, _, name = path.rpartition("/")
    beside = [f"{PYTHON}defaults.py", f"{PYTHON}refusals.py"]
    if folder == "custom_ops" and name != "__init__.py":
        family = name.removesuffix(".py")
        tests = [*CUSTOM_OPS, "-k", " or ".join(cases(family, function))] if family != "atb" else [*BESIDE["atb"]]
        beside = [*BESIDE.get(family, []), f"{PYTHON}refusals.py"]  # the defaults of operators are those of their schemas
    else:
        tests = next((tests for key, tests in TESTS.items() if path == key or (key.endswith("/") and path.startswith(key))), [])
    further = [Stage((file,)) for file in beside]
    return [Stage(tuple(tests), processes) for processes in (False, True)] + further if tests else []


@cache
def cases(family: str, function: str) -> list[str]:
    """The operators whose cases go through `function`: itself, or all that call it."""
    tree = ast.parse((ROOT / f"torch_npu/custom_ops/{family}.py").read_text())
    functions = {node.name: {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                 for node in tree.body if isinstance(node, ast.FunctionDef)}
    reached, before = {function}, set()
    while reached != before:
        before = set(reached)
        reached |= {name for name, used in functions.items() if used & reached}
    public = [sorted(name for name in names if name and not name.startswith("_")) for names in (reached, functions)]
    schemas = (ROOT / "torch_npu/custom_ops/schemas.py").read_text()
    overloads = {f"{name}_{overload}": name for name, overload in re.findall(r'"(\w+)\.(\w+)\(', schemas)}
    return list(dict.fromkeys(overloads.get(name, name) for name in public[0] or public[1]))


def files() -> list[str]:
    """Python files of the package, as this table names them."""
    package = ROOT / "torch_npu"
    return sorted(str(path.relative_to(package)) for path in package.rglob("*.py") if not links(path.relative_to(package)))


def links(path: Path) -> bool:
    """Whether a file belongs to what was compiled, which `pip install -e .` links into the package."""
    return path.parts[0] in ("softnpu", "include", "lib")
