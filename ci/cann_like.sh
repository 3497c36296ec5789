#!/usr/bin/env bash
# Runs operators, optimisers and training steps on a folder that looks like CANN: no libsoftnpu.so beside libascendcl.so, and none of the
# names softnpu... that CANN does not have. What needs one must be computed on the CPU, counted. About 3 minutes on 2 cores.
# Arguments go to test/cann_like/run.py, for example --op linalg.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec python test/cann_like/run.py "$@"
