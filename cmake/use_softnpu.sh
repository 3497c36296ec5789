# source "$(softnpu env --path)": every client of CANN in this shell finds softnpu, also where CANN is installed.
# Prints one line. bash and zsh; set_env.sh beside it does the work.
export TORCH_NPU_RUNTIME=soft
if [ -n "${ZSH_VERSION:-}" ]; then
  eval '_torch_npu_softnpu="${(%):-%x}"'
else
  _torch_npu_softnpu="${BASH_SOURCE:-$0}"
fi
_torch_npu_softnpu="$(CDPATH='' cd -P -- "$(dirname -- "$_torch_npu_softnpu")" >/dev/null && pwd)"
. "$_torch_npu_softnpu/set_env.sh"
