#!/usr/bin/env bash
# From a fresh clone to a trained network: sets up an environment, builds and installs the wheel, trains on npu.
# Arguments go to examples/train_digits.py, for example --epochs=3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ci/environment.sh requirements-test.txt
bash ci/install.sh
exec python examples/train_digits.py "$@"
