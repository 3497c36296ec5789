#!/usr/bin/env bash
# Compiles for aarch64 what needs no torch (softnpu's runtime, entry points and collectives), links it into a library in a
# throw-away folder, and says so in one line. Finds code that only x86_64 has; nothing is run. Usage: bash ci/cross_compile.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

compiler=aarch64-linux-gnu-g++
if ! command -v "$compiler" >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && apt-get install -y -qq g++-aarch64-linux-gnu >/dev/null
fi
if ! command -v "$compiler" >/dev/null; then
  echo "cross_compile: $compiler is missing; install it with apt-get install g++-aarch64-linux-gnu" >&2
  exit 1
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export compiler folder
compile() {
  "$compiler" -std=c++20 -O1 -fPIC -Wall -Wextra -Werror -mbranch-protection=standard -Isoftnpu -Iabi -c "$1" \
    -o "$folder/$(echo "$1" | tr / _).o"
}
export -f compile

# The kernels' control register is inline assembly in a header that needs no torch either.
echo '#include "kernels/engine/float_flags.h"
void restore_float_flags() { softnpu::kernels::set_float_flags(softnpu::kernels::float_flags()); }' >"$folder/float_flags.cpp"

sources=(softnpu/{runtime,entry,comm,shims}/*.cpp "$folder/float_flags.cpp")
printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'compile "$0"' ||
  { echo "cross_compile: some of ${#sources[@]} files do not compile for aarch64" >&2; exit 1; }
"$compiler" -shared -pthread -Wl,--no-undefined "$folder"/*.o -o "$folder/libsoftnpu.so" ||
  { echo "cross_compile: libsoftnpu.so does not link for aarch64" >&2; exit 1; }
echo "cross_compile: ${#sources[@]} files compile and link for aarch64"
