#!/usr/bin/env bash
# Records what clients call for the same programs, on a folder that looks like CANN. Usage: bash ci/calls.sh OUT [arguments of
# tools/calls/record.py]: the official client and this project's torch_npu, which are compared. With CALLS_CLIENTS=official (or ours) one
# of them is recorded only; with CALLS_CLIENTS=suite the tests that the arguments name, and those of the adapter alone: what calls the
# C ABI itself is left out. The client's environment as in ci/official.sh.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
clients=${CALLS_CLIENTS:-official ours}
official="${OFFICIAL_VENV:-$here/build/official}/bin/python"
if [[ $clients == *official* ]]; then
  [ -x "$official" ] || bash "$here/ci/official.sh" wheel  # makes the environment
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mapfile -t environment < <(python3 "$here/test/cann_like/folder.py" "$folder")
softnpu=$(python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import folder; print(folder.softnpu().parent)' "$here/test/cann_like")
for part in opp runtime compiler tools; do
  if [ -e "$softnpu/$part" ]; then cp -r "$softnpu/$part" "$folder/$part"; fi
done
environment+=("ACLNN_CACHE_LIMIT=${ACLNN_CACHE_LIMIT:-0}" "ASCEND_OPP_PATH=$folder/opp" "ASCEND_TOOLKIT_HOME=$folder")
if [ "$clients" = suite ]; then
  rm -rf "$out/suite" && mkdir "$out/suite"
  cd "$here"
  # A test that says itself what is to be sent, or where to, is a client of its own. Programs that torch refuses say nothing. Torch's own
  # binomial, which computes here, does not come back from one test, nor did a graph case of generators.
  mapfile -t own < <(grep -rlE '^ *(import|from) (abi|abi_calls|folder)\b|TORCH_NPU_RUNTIME|ASCEND_HOME_PATH|SOFTNPU_RECORD' test \
    --include='test_*.py' | sed 's/^/--ignore=/')
  own+=(--ignore=test/ops/test_refused_types.py --ignore=test/ops/test_errors.py --ignore=test/ops/test_samplers.py
    --ignore=test/python/test_cuda_graph_cases.py)
  env "${environment[@]}" CALLS_FOLDER="$out/suite" SOFTNPU_RECORD_ONCE=1 \
    python3 -m pytest -q -n "${TEST_JOBS:-auto}" --dist worksteal -p no:cacheprovider "${own[@]}" "$@"
  exit
fi
running=()
for client in $clients; do
  if [ "$client" = official ]; then
    # It links libraries by name: it needs the folder in the loader's path.
    extra=("LD_LIBRARY_PATH=$folder/lib64:$folder/driver" PYTHONPATH=) python="$official"
  else
    extra=() python=python3
  fi
  env "${environment[@]}" "${extra[@]}" python3 "$here/tools/calls/record.py" "$python" "$out/$client.jsonl" "$@" &
  running+=($!)
done
for each in "${running[@]}"; do wait "$each"; done
if [ "$clients" = "official ours" ]; then
  if [ "${ACLNN_CACHE_LIMIT:-0}" = 0 ]; then
    python3 "$here/tools/calls/compare.py" "$out/official.jsonl" "$out/ours.jsonl"
    python3 "$here/tools/calls/vocabulary.py" check "$out/ours.jsonl"
  else  # most launches have no phase one to compare: the use of the executor cache is
    python3 "$here/tools/calls/protocol.py" "$out/official.jsonl" "$out/ours.jsonl"
  fi
fi
