# `source env.sh`: chooses CANN if it is there, else the softnpu of this checkout's build, else that of the installed
# package. Prints one line; bash and zsh, twice, and under `set -eu`. The choice itself is made by set_env.sh.
if [ -n "${ZSH_VERSION:-}" ]; then
  eval '_torch_npu_root="${(%):-%x}"'
else
  _torch_npu_root="${BASH_SOURCE:-$0}"
fi
_torch_npu_root="$(CDPATH='' cd -P -- "$(dirname -- "$_torch_npu_root")" >/dev/null && pwd)"
_torch_npu_softnpu="$_torch_npu_root/build/torch_npu/softnpu"
if [ ! -e "$_torch_npu_softnpu/lib64/libsoftnpu.so" ]; then
  # From "/", because the folder torch_npu of this checkout would be found first.
  _torch_npu_softnpu="$(cd / && python3 -c '
import importlib.util
spec = importlib.util.find_spec("torch_npu")
print(spec.submodule_search_locations[0] + "/softnpu" if spec else "")' 2>/dev/null || true)"
  _torch_npu_softnpu="${_torch_npu_softnpu:-$_torch_npu_root/build/torch_npu/softnpu}"
fi
. "$_torch_npu_root/cmake/set_env.sh" || { unset _torch_npu_root; return 1; }
unset _torch_npu_root
