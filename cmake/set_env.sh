# Source this file to choose the runtime behind the CANN C ABI: an installed CANN, else this softnpu. Prints one line.
# Works in bash and zsh, twice, and under `set -eu`. TORCH_NPU_RUNTIME=cann|soft forces one.
# torch_npu itself needs none of this: it finds both by itself. Other clients of the ABI do.
# The repository's env.sh sets _torch_npu_softnpu to the folder of a built or installed softnpu; alone, it is this folder.

_torch_npu_choose() {
  local softnpu="$1" cann="" dir script flags
  for dir in "${ASCEND_HOME_PATH:-}" "${ASCEND_TOOLKIT_HOME:-}" \
             /usr/local/Ascend/ascend-toolkit/latest /usr/local/Ascend/cann \
             "${HOME:-/nonexistent}/Ascend/ascend-toolkit/latest" "${HOME:-/nonexistent}/Ascend/cann"; do
    if [ -e "$dir/lib64/libascendcl.so" ] && [ ! -e "$dir/lib64/libsoftnpu.so" ]; then
      cann="$dir"
      break
    fi
  done

  case "${TORCH_NPU_RUNTIME:-}" in
    "") ;;
    soft) cann="" ;;
    cann)
      if [ -z "$cann" ]; then
        echo "torch_npu: TORCH_NPU_RUNTIME=cann, but no CANN found; set ASCEND_HOME_PATH to its toolkit folder" >&2
        return 1
      fi ;;
    *)
      echo "torch_npu: TORCH_NPU_RUNTIME=$TORCH_NPU_RUNTIME is neither cann nor soft" >&2
      return 1 ;;
  esac

  if [ -n "$cann" ]; then
    if [ "${ASCEND_HOME_PATH:-}" != "$cann" ]; then
      for script in "$cann/set_env.sh" "$cann/../set_env.sh"; do
        if [ -f "$script" ]; then
          flags=$-  # CANN's own script was not written for `set -eu`
          set +eu
          . "$script"
          case "$flags" in *e*) set -e ;; esac
          case "$flags" in *u*) set -u ;; esac
          break
        fi
      done
    fi
    _torch_npu_export "${ASCEND_HOME_PATH:-$cann}"
    echo "torch_npu: using CANN in $ASCEND_HOME_PATH"
  elif [ -e "$softnpu/lib64/libsoftnpu.so" ]; then
    _torch_npu_export "$softnpu"
    echo "torch_npu: using softnpu in $softnpu"
  else
    echo "torch_npu: neither CANN nor a built softnpu found; cure: bash ci/build.sh, then pip install the wheel in dist/" >&2
    return 1
  fi
}

_torch_npu_export() {
  export ASCEND_HOME_PATH="$1" ASCEND_TOOLKIT_HOME="$1" ASCEND_OPP_PATH="$1/opp"
  case ":${LD_LIBRARY_PATH:-}:" in
    *":$1/lib64:"*) ;;
    *) export LD_LIBRARY_PATH="$1/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ;;
  esac
}

if [ -z "${_torch_npu_softnpu:-}" ]; then
  if [ -n "${ZSH_VERSION:-}" ]; then
    eval '_torch_npu_softnpu="${(%):-%x}"'
  else
    _torch_npu_softnpu="${BASH_SOURCE:-$0}"
  fi
  _torch_npu_softnpu="$(CDPATH='' cd -P -- "$(dirname -- "$_torch_npu_softnpu")" >/dev/null && pwd)"
fi
_torch_npu_status=0
_torch_npu_choose "$_torch_npu_softnpu" || _torch_npu_status=1
unset _torch_npu_softnpu
unset -f _torch_npu_choose _torch_npu_export
if [ "$_torch_npu_status" -ne 0 ]; then
  unset _torch_npu_status
  return 1
fi
unset _torch_npu_status
