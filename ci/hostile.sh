#!/usr/bin/env bash
# The tests on a softnpu that refuses what a card may not survive and does by chance what it leaves open (docs/softnpu.md).
#   bash ci/hostile.sh        a part of them, less than a minute: the stage of ci/test.sh
#   bash ci/hostile.sh all    all of them, at two levels of the task queue and without the cache of memory
# Types stay: the tests compare them all. HOSTILE_SEED chooses what comes by chance. Further arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export SOFTNPU_STRICT=calls SOFTNPU_HOSTILE=${HOSTILE_SEED:-1} SOFTNPU_ASYNC=1
failed=""
run() {
  echo "== TASK_QUEUE_ENABLE=$TASK_QUEUE_ENABLE caching=$((1 - ${PYTORCH_NO_NPU_MEMORY_CACHING:-0})): $*"
  python3 -m pytest -q -n "${PYTEST_XDIST_WORKERS:-auto}" "$@" || failed="$failed [$TASK_QUEUE_ENABLE: $*]"
}

if [ "${1:-}" != all ]; then
  TASK_QUEUE_ENABLE=0 run --part 1/6 test/ops/test_opinfo.py "$@"
  TASK_QUEUE_ENABLE=2 run --part 1/6 test/custom_ops/test_custom_ops.py -k test_result "$@"
  TASK_QUEUE_ENABLE=2 run test/python/test_training.py test/optim/test_fused_optimizers.py "$@"
else
  shift
  for level in 0 2; do
    export TASK_QUEUE_ENABLE=$level
    for part in test/python test/ops test/custom_ops test/optim test/distributed test/contrib test/profiler; do run "$part" "$@"; done
  done
  TASK_QUEUE_ENABLE=1 PYTORCH_NO_NPU_MEMORY_CACHING=1 run test/ops/test_opinfo.py test/custom_ops/test_custom_ops.py "$@"
fi
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
