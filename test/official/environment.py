"""Variables of the environment and the start of the client: every row is a process of its own."""

import os
import subprocess
import sys

from rows import each

IN_MODES = ("queue 1",)
HEAD = "import torch, torch_npu\nx = torch.ones(4).npu()\n"


def run(code, variables=None, without=()):
    environment = {key: value for key, value in os.environ.items() if key not in without} | (variables or {})
    return subprocess.run([sys.executable, "-c", code], env=environment, cwd=os.sep, capture_output=True, text=True, timeout=200)


# Variables, a program, and what it prints.
PROGRAMS = {
    "visible devices": ({"ASCEND_RT_VISIBLE_DEVICES": "2,3"}, HEAD + "print(torch.npu.device_count(), x.device)", "2 npu:0"),
    "no visible device": ({"ASCEND_RT_VISIBLE_DEVICES": "0"}, HEAD + "print(torch.npu.device_count())", "1"),
    "blocking launches": ({"ASCEND_LAUNCH_BLOCKING": "1"}, HEAD + "print((x + 1).sum().item())", "8.0"),
    "expandable segments": (
        {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"},
        HEAD + "y = [torch.ones(5 << 20).npu() for _ in range(3)]\ns = torch.npu.memory_snapshot()\n"
        "print(all(e['is_expandable'] for e in s if e['total_size'] > 1 << 21), sum(t.sum().item() for t in y))",
        "True 15728640.0",
    ),
    "segments that grow": (
        {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"},
        HEAD + "a = torch.empty(64 << 20, dtype=torch.uint8, device='npu'); del a\nr = torch.npu.memory_reserved()\n"
        "b = torch.empty(96 << 20, dtype=torch.uint8, device='npu')\nprint(torch.npu.memory_reserved() - r < 64 << 20)",
        "True",
    ),
    "largest block to split": (
        {"PYTORCH_NPU_ALLOC_CONF": "max_split_size_mb:40"},
        HEAD
        + "a = torch.empty(64 << 20, dtype=torch.uint8, device='npu'); del a\nb = torch.empty(30 << 20, dtype=torch.uint8, device='npu')\n"
        "print(torch.npu.memory_stats()['inactive_split_bytes.large_pool.current'] < 32 << 20)",
        "True",
    ),
    "garbage collection of blocks": ({"PYTORCH_NPU_ALLOC_CONF": "garbage_collection_threshold:0.6"}, HEAD + "print(x.sum().item())", "4.0"),
    "an allocator's setting of torch": ({"PYTORCH_ALLOC_CONF": "expandable_segments:True"}, HEAD + "print(x.sum().item())", "4.0"),
    "no cache": (
        {"PYTORCH_NO_NPU_MEMORY_CACHING": "1"},
        HEAD + "f = torch.npu.mem_get_info(0)[0]\na = torch.ones(4 << 20).npu()\ng = torch.npu.mem_get_info(0)[0]\ndel a\n"
        "torch.npu.synchronize()\nprint(f - g >= 16 << 20, torch.npu.mem_get_info(0)[0] == f)\ndel x",
        "True True",
    ),
    "no autoload": (
        {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        "import torch\nprint(hasattr(torch, 'npu') and torch.npu.is_available())",
        "False",
    ),
    "autoload": ({}, "import torch, sys\nprint('torch_npu' in sys.modules, torch.npu.is_available())", "True True"),
    "fallback to the CPU": ({"TORCH_NPU_FALLBACK_CPU_DISABLE": "0"}, HEAD + "print(torch.special.zeta(x + 1, x).device)", "npu:0"),
    "fallback forbidden": (
        {"TORCH_NPU_FALLBACK_CPU_DISABLE": "1"},
        HEAD + "try:\n    torch.special.zeta(x + 1, x)\nexcept RuntimeError as e:\n    print('special_zeta' in str(e))",
        "True",
    ),
    "combined views": (
        {"COMBINED_ENABLE": "1"},
        HEAD
        + "f = lambda t: t.view(2, 3, 4).transpose(0, 2)[1:, ::2].contiguous()\n"
        "print(torch.equal(f(torch.arange(24.).npu()).cpu(), f(torch.arange(24.))))",
        "True",
    ),
    "one queue for each stream": (
        {"PER_STREAM_QUEUE": "1"},
        HEAD + "s = torch.npu.Stream()\ns.wait_stream(torch.npu.current_stream())\n"
        "with torch.npu.stream(s):\n    y = x * 2\ns.synchronize()\nprint(y.sum().item())",
        "8.0",
    ),
    "streams of a card": ({"STREAMS_PER_DEVICE": "8"}, HEAD + "print(len({torch.npu.Stream().npu_stream for _ in range(40)}))", "8"),
    "saturation": ({"INF_NAN_MODE_ENABLE": "1"}, HEAD + "print((x.half() * 60000 * 2)[0].item())", "inf"),
    "binding to cores": ({"CPU_AFFINITY_CONF": "1"}, HEAD + "print(x.sum().item())", "4.0"),
    "lazy fusion off": ({"TORCH_NPU_LAZY_FUSION": "0"}, HEAD + "print(((x + 1) * 2).sum().item())", "16.0"),
    "compact errors": (
        {"TORCH_NPU_COMPACT_ERROR_OUTPUT": "1"},
        HEAD + "try:\n    torch.npu.set_device(99)\nexcept Exception as e:\n    print('99' in str(e) or 'nvalid' in str(e))",
        "True",
    ),
    "warnings off": ({"TORCH_NPU_WARNING_DISABLE": "1"}, HEAD + "print(x.sum().item())", "4.0"),
    "reuse between streams": (
        {"MULTI_STREAM_MEMORY_REUSE": "0"},
        HEAD + "s = torch.npu.Stream()\nx.record_stream(s)\nprint(x.sum().item())",
        "4.0",
    ),
    "queue level told": ({"TASK_QUEUE_ENABLE": "2"}, HEAD + "print(torch.npu.get_task_queue_enable())", "2"),
    "environment report": (
        {},
        "from torch_npu.utils import collect_env\nprint('torch_npu' in collect_env.get_pretty_env_info().lower())",
        "True",
    ),
    "flops": (
        {},
        HEAD
        + "from torch_npu.utils.flops_count import FlopsCounter\nc = FlopsCounter()\nc.start()\n"
        "y = torch.ones(4, 4).npu() @ torch.ones(4, 4).npu()\n"
        "torch.npu.synchronize()\nn = c.get_flops()\nc.stop()\nprint(n[0] if isinstance(n, (list, tuple)) else n)",
        "128",
    ),
    "version of CANN": (
        {},
        "import torch, torch_npu\nprint(bool(torch.version.cann) and torch_npu.__version__.startswith('2.13'))",
        "True",
    ),
    "affinity of a thread": ({}, HEAD + "torch_npu.utils.set_thread_affinity([0, 0])\nimport os\nprint(os.sched_getaffinity(0))", "{0}"),
    "sanitizer": ({"TORCH_NPU_SANITIZER": "1"}, HEAD + "print((x + 1).sum().item())", "8.0"),
    "snapshot when memory runs out": (
        {"OOM_SNAPSHOT_ENABLE": "1", "OOM_SNAPSHOT_PATH": "/tmp"},
        HEAD + "try:\n    torch.empty(1 << 40, device='npu')\nexcept torch.OutOfMemoryError:\n"
        "    import glob, os\n    f = [g for g in glob.glob('/tmp/*snapshot*') if str(os.getpid()) in g]\n"
        "    print(len(f) > 0)\n    [os.remove(g) for g in f]",
        "True",
    ),
}


@each(PROGRAMS)
def check_programs_in_an_environment(row):
    variables, code, expected = row
    process = run(code, variables)
    assert process.returncode == 0, process.stderr[-1500:]
    lines = [line for line in process.stdout.splitlines() if line]
    assert lines and lines[-1] == expected, (process.stdout[-300:], process.stderr[-600:])


# Variables that are refused, and a word of why.
REFUSED = {
    "no folder of CANN": ({"ASCEND_HOME_PATH": "/nonexistent"}, HEAD, "ASCEND_HOME_PATH"),
    "both allocators' settings": (
        {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "expandable_segments:True"},
        HEAD,
        "ALLOC_CONF",
    ),
    "an unknown key": ({"PYTORCH_NPU_ALLOC_CONF": "nonsense:1"}, HEAD, "nonsense"),
    "a value that is none": ({"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:maybe"}, HEAD, "maybe"),
    "settings that exclude each other": (
        {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:40"},
        HEAD,
        "max_split_size_mb",
    ),
    "exit with an error of the client": ({}, "import torch, torch_npu\ntorch.npu.set_device(99)", "ERR"),
}


@each(REFUSED)
def check_what_an_environment_may_not_say(row):
    variables, code, word = row
    process = run(code, variables)
    assert word in process.stderr, process.stderr[-800:]


@each(["0", "1", "2"])
def check_a_failing_operator_is_told_at_every_level_of_the_queue(level):
    process = run(HEAD + "y = torch.linalg.cholesky(-torch.eye(3).npu())\ntorch.npu.synchronize()\nprint(y)", {"TASK_QUEUE_ENABLE": level})
    assert process.returncode and "positive" in process.stderr or "Cholesky" in process.stderr or "cholesky" in process.stderr, (
        process.stderr[-800:]
    )


def check_an_allocator_of_ones_own():
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "own.cpp", Path(folder) / "own.so"
        source.write_text(
            'extern "C" {\nint aclrtMalloc(void**, unsigned long, int);\nint aclrtFree(void*);\nlong own_count = 0;\n'
            "void* own_alloc(long size, int, void*) { void* p = nullptr; aclrtMalloc(&p, size + 32, 0); ++own_count; return p; }\n"
            "void own_free(void* p, long, int, void*) { aclrtFree(p); --own_count; }\n}\n"
        )
        subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
        code = (
            f"import torch, torch_npu, ctypes\nfrom torch_npu.npu import NPUPluggableAllocator\nlib = '{library}'\n"
            "torch.npu.memory.change_current_allocator(NPUPluggableAllocator(lib, 'own_alloc', 'own_free'))\n"
            "x = torch.ones(4).npu()\ncount = ctypes.c_long.in_dll(ctypes.CDLL(lib), 'own_count')\nheld = count.value\n"
            "y = torch.ones(100).npu()\nprint(count.value - held, (x + 1).sum().item())"
        )
        process = run(code)
        assert process.stdout.split()[-2:] == ["1", "8.0"], (process.stdout, process.stderr[-800:])
